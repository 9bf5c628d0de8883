"""Settings that must be there before torch is imported, for tests and the processes they start."""

import os
import signal
from collections.abc import Iterator

import pytest

# Threads that wait by spinning make a busy machine ten times slower.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# Of several workers (pytest-xdist) each has a core of its own.
os.environ.setdefault("OMP_NUM_THREADS", "1" if "PYTEST_XDIST_WORKER" in os.environ else "2")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Iterator[None]:
    """A trainer in this process takes over signals, in a fixture too; they are given back.

    An ignored signal stays ignored in every process that a later test starts.
    """
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.getsignal(number) for number in numbers]
    result = yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)
    return result


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Base URL and model name of a real small model behind a real server; it is started once."""
    from tests.judges.serving import served

    with served(tmp_path_factory.mktemp("served")) as found:
        yield found
