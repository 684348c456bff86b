import os

# Kernels are compiled at their first use, so that no measurement is of the scan that answers until they are ready.
os.environ.setdefault("RAY_PUBSUB_KERNELS", "now")
