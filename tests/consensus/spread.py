"""Runs every arm on quadratics and by Adam, spread over the processes that the environment names.

    RANK=0 WORLD_SIZE=2 MASTER_ADDR=… MASTER_PORT=… python -m tests.consensus.spread OUTPUT

Each process writes OUTPUT/<rank>.pt: per arm the states of its nodes, what was told, bytes crossed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from adaptermill.consensus.admm import Admm, Coupling
from adaptermill.consensus.communicator import Communicator, Distributed
from adaptermill.consensus.local import AdamSteps
from tests.consensus.quadratics import drawn, run

NODES, SIZE, ROUNDS = 4, 16, 5
ARMS: dict[str, dict[str, Any]] = {
    "ring": {},
    "coordinator": {"consensus": "coordinator"},
    "gossip": {"consensus": "gossip", "topology": "expander", "gossip_steps": 3},
    "chain": {"consensus": "gossip", "topology": "chain"},
    "no dual": {"dual": False},
    "alone": {"coupled": False},
}


def by_adam(communicator: Communicator, **coupling: Any) -> tuple[Admm, list[dict[str, Any]]]:
    """The same quadratics in float32 with Adam for the x-steps."""
    exact = drawn(NODES, SIZE, rho=0.5)

    def gradient(node: int, step: int, x: torch.Tensor) -> tuple[dict[str, float], torch.Tensor]:
        away = x - exact.center[node].float()
        value = float(exact.curvature[node] / 2 * away.square().sum())
        return {"objective": value}, exact.curvature[node].float() * away

    solver = AdamSteps(gradient, steps=4, learning_rate=0.1, clip=0.5, rho=0.5)
    told: list[dict[str, Any]] = []

    def on_round(line: dict[str, Any]) -> None:
        solver.end_round()
        told.append(line)

    admm = Admm(Coupling(rho=0.5, **coupling), solver, communicator, torch.zeros(SIZE))
    admm.run(ROUNDS, on_round)
    return admm, told


def all_arms(make: Any) -> dict[str, Any]:
    found = {}
    for name, arm in ARMS.items():
        for kind in ("exact", "adam"):
            communicator = make(NODES)
            if kind == "exact":
                admm, told = run(drawn(NODES, SIZE), ROUNDS, communicator, **arm)
            else:
                admm, told = by_adam(communicator, **arm)
            states = {node: vars(state) for node, state in admm.nodes.items()}
            crossed = getattr(communicator, "crossed", 0)
            found[f"{name}, {kind}"] = {"states": states, "told": told, "crossed": crossed}
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.save(all_arms(Distributed), Path(sys.argv[1]) / f"{dist.get_rank()}.pt")
    dist.destroy_process_group()
