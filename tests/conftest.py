"""Settings that must be there before torch is imported, for tests and the processes they start."""

import os

# Threads that wait by spinning make a busy machine ten times slower.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# Of several workers (pytest-xdist) each has a core of its own.
os.environ.setdefault("OMP_NUM_THREADS", "1" if "PYTEST_XDIST_WORKER" in os.environ else "2")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
