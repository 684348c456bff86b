import os

# Kernels are compiled where they are first used, so that none of what is measured is the scan that answers meanwhile.
os.environ.setdefault("RAY_PUBSUB_KERNELS", "now")
