"""The SLURM that the tests of this folder run on, one at a time on a machine."""

from collections.abc import Iterator

import pytest
from filelock import FileLock

from tests.slurm import cluster
from tests.slurm.mill import ClusterMill


@pytest.fixture(scope="session")
def slurm() -> Iterator[None]:
    if reason := cluster.why_not():
        pytest.skip(f"no SLURM can be started here: {reason}")
    with FileLock("/tmp/adaptermill-slurm.lock"):
        cluster.start()
        yield
        cluster.stop()


@pytest.fixture(scope="session")
def mill(slurm: None, tmp_path_factory: pytest.TempPathFactory) -> ClusterMill:
    """A workspace whose fit sets are made, so that training is all that is left to do."""
    return ClusterMill.make(tmp_path_factory.mktemp("cluster"))
