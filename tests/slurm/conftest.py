"""The SLURM that the tests of this folder run on: one for all test processes of a machine."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from filelock import FileLock

from tests.slurm import cluster
from tests.slurm.mill import ClusterMill

LOCK, USERS = Path("/tmp/adaptermill-slurm.lock"), Path("/tmp/adaptermill-slurm.users")


def others() -> bool:
    """Whether another live test process uses the cluster."""
    pids = [int(path.name) for path in USERS.glob("*")]
    return any(pid != os.getpid() and psutil.pid_exists(pid) for pid in pids)


@pytest.fixture(scope="session")
def slurm() -> Iterator[None]:
    if reason := cluster.why_not():
        pytest.skip(f"no SLURM can be started here: {reason}")
    USERS.mkdir(exist_ok=True)
    mine = USERS / str(os.getpid())
    with FileLock(LOCK):
        if not others():
            shutil.rmtree(USERS)
            USERS.mkdir()
            cluster.start()
        mine.touch()
    yield
    with FileLock(LOCK):
        mine.unlink()
        if not others():
            cluster.stop()


@pytest.fixture(scope="session")
def mill(slurm: None, tmp_path_factory: pytest.TempPathFactory) -> ClusterMill:
    """A workspace whose fit sets are made, so that training is all that is left to do."""
    return ClusterMill.make(tmp_path_factory.mktemp("cluster"))
