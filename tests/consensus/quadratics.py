"""Nodes whose objectives are quadratics a / 2 ||x - c||^2, minimised exactly."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from adaptermill.consensus.admm import Admm, Coupling, Solved
from adaptermill.consensus.communicator import Communicator, InProcess

GOLDEN = Path(__file__).resolve().parents[3] / "shared" / "golden" / "consensus.json"


def golden() -> dict[str, Any]:
    return json.loads(GOLDEN.read_text())


@dataclass
class Exact:
    """Exact x-steps. `curvature` [n], `center` [n, P], both float64."""

    curvature: torch.Tensor
    center: torch.Tensor
    rho: float
    figures = ("objective",)

    def solve(
        self, node: int, round_: int, start: torch.Tensor, pull: torch.Tensor | None
    ) -> Solved:
        a, c = self.curvature[node], self.center[node]
        x = c.clone() if pull is None else (a * c + self.rho * pull) / (a + self.rho)
        return Solved(x, {"objective": float(a / 2 * (x - c).square().sum())})

    @property
    def optimum(self) -> torch.Tensor:
        """[P]: where the sum of all objectives is least."""
        return (self.curvature[:, None] * self.center).sum(0) / self.curvature.sum()


def drawn(nodes: int, size: int, rho: float = 3.0, seed: int = 0) -> Exact:
    """Curvatures 1 to 10 and centres drawn by a seed."""
    generator = torch.Generator().manual_seed(seed)
    curvature = 1 + 9 * torch.rand(nodes, generator=generator, dtype=torch.float64)
    center = torch.randn(nodes, size, generator=generator, dtype=torch.float64)
    return Exact(curvature, center, rho)


def run(
    exact: Exact,
    rounds: int,
    communicator: Communicator | None = None,
    **coupling: Any,
) -> tuple[Admm, list[dict[str, Any]]]:
    """The nodes after some rounds from zero, and what each round told."""
    told: list[dict[str, Any]] = []
    nodes, size = exact.center.shape
    admm = Admm(
        Coupling(rho=exact.rho, **coupling),
        exact,
        communicator or InProcess(nodes),
        torch.zeros(size, dtype=torch.float64),
    )
    admm.run(rounds, told.append)
    return admm, told
