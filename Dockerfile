# syntax=docker/dockerfile:1
# A server in a container, with its HTTP interface, which is the only way in:
#   docker build -t ray-pubsub .
#   docker run --rm --name pubsub --shm-size=1g -v pubsub:/data -p 127.0.0.1:8480:8480 ray-pubsub
#   docker exec pubsub cat /data/state/ray-pubsub/default/admin-token
FROM python:3.12-slim-bookworm AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE pyspark_ray_pubsub.py ray_pubsub_http.py ./
COPY ray_pubsub ray_pubsub
COPY actors actors
COPY spark_bridge spark_bridge
RUN python -m pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.12-slim-bookworm
# Kernels are compiled when the image is built, so that no container waits for them.
# Tokens and webhooks are on the volume too.
ENV NUMBA_CACHE_DIR=/var/cache/ray-pubsub PYTHONDONTWRITEBYTECODE=1 XDG_STATE_HOME=/data/state
COPY --from=build /wheels /wheels
COPY requirements.lock /wheels/
RUN set -eu; wheel=$(ls /wheels/*.whl); \
    python -m pip install --no-cache-dir --constraint /wheels/requirements.lock "${wheel}[server,http,metrics]"; \
    rm -r /wheels; \
    useradd --create-home --uid 10001 pubsub; \
    mkdir -p /data /var/cache/ray-pubsub; \
    chown pubsub /data /var/cache/ray-pubsub
USER 10001
WORKDIR /data
RUN ray-pubsub warm-up
VOLUME /data
EXPOSE 8480
HEALTHCHECK --interval=30s --timeout=20s --start-period=60s CMD ["ray-pubsub", "status", "--data-dir", "/data", "--json"]
ENTRYPOINT ["ray-pubsub"]
CMD ["start", "--data-dir", "/data", "--http", "0.0.0.0:8480"]
