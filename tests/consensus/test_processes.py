"""Fewer, as many and more processes than nodes."""

import os
import socket
import subprocess
import sys

import pytest
import torch

from adaptermill.consensus.communicator import InProcess, owners
from tests.consensus.spread import NODES, ROUNDS, SIZE, all_arms
from tests.training.world import REPOSITORY


def test_nodes_are_shared_out_evenly_and_in_order():
    assert owners(4, 1) == [0, 0, 0, 0]
    assert owners(4, 2) == [0, 0, 1, 1]
    assert owners(5, 3) == [0, 0, 1, 1, 2]
    assert owners(4, 4) == owners(4, 6) == [0, 1, 2, 3]


def spread(processes: int, folder) -> list[dict]:
    folder.mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.consensus.spread", str(folder)],
            cwd=REPOSITORY,
            env={**os.environ, **shared, "RANK": str(rank), "WORLD_SIZE": str(processes)},
        )
        for rank in range(processes)
    ]
    assert [process.wait(timeout=300) for process in started] == [0] * processes
    return [torch.load(folder / f"{rank}.pt") for rank in range(processes)]


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 3, 4, 5])
def test_the_number_of_processes_changes_no_bit(processes, tmp_path):
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    alone = all_arms(InProcess)
    torch.set_num_threads(before)
    parts = spread(processes, tmp_path / "spread")
    for arm, expected in alone.items():
        states = {}
        for part in parts:
            assert part[arm]["told"] == expected["told"], arm
            states |= part[arm]["states"]
        assert sorted(states) == list(range(NODES))
        for node, state in states.items():
            for name, vector in state.items():
                assert torch.equal(vector, expected["states"][node][name]), (arm, node, name)
        if processes >= NODES:  # every edge is between processes: what is counted really went
            crossed = [part[arm]["crossed"] for part in parts]
            counted = torch.tensor([line["bytes_sent"] for line in expected["told"]]).sum(0)
            assert crossed == [*counted.tolist(), *[0] * (processes - NODES)], arm
        if processes == 1:
            assert parts[0][arm]["crossed"] == 0
    if processes == NODES:
        size = 4 * SIZE  # bytes of a vector
        found = parts[0]["ring, adam"]["crossed"]
        assert found == ROUNDS * 2 * (NODES - 1) * size // NODES
        assert parts[0]["chain, adam"]["crossed"] == ROUNDS * size
        assert parts[0]["gossip, adam"]["crossed"] == ROUNDS * 3 * 3 * size
