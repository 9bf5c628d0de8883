"""The rounds of consensus ADMM: x-step, z-step, dual step, and what they tell."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from adaptermill.consensus import averaging
from adaptermill.consensus.communicator import Communicator


class NotFinite(Exception):
    """An objective, gradient or vector is not finite any more; says where."""


@dataclass(frozen=True)
class Coupling:
    """How nodes are held together.

    `consensus`: coordinator and ring average exactly, gossip by `gossip_steps` exchanges along the
    edges of `topology`. `dual` False keeps u at 0; `coupled` False leaves the nodes alone.
    """

    rho: float = 0.03
    consensus: str = "ring"
    topology: str = "ring"
    gossip_steps: int = 1
    dual: bool = True
    coupled: bool = True

    def average(
        self,
        values: Mapping[int, torch.Tensor],
        communicator: Communicator,
        like: torch.Tensor,
    ) -> Mapping[int, torch.Tensor]:
        if self.consensus == "gossip":
            steps = self.gossip_steps
            return averaging.gossip(values, communicator, like, self.topology, steps)
        exact = {"coordinator": averaging.coordinator, "ring": averaging.ring}[self.consensus]
        return exact(values, communicator, like)


@dataclass
class NodeState:
    """A node's vectors, each [P]: its own x, the consensus z as it knows it, the scaled dual u."""

    x: torch.Tensor
    z: torch.Tensor
    u: torch.Tensor


@dataclass(frozen=True)
class Solved:
    """The end of an x-step: x [P] and figures of the way there, `objective` (f_i) among them."""

    x: torch.Tensor
    figures: Mapping[str, float]


class Solver(Protocol):
    """Minimises f_node(x) + rho / 2 ||x - pull||^2 from `start`; without `pull`, f_node alone.

    `figures` names what it tells of every x-step.
    """

    figures: Sequence[str]

    def solve(
        self, node: int, round_: int, start: torch.Tensor, pull: torch.Tensor | None
    ) -> Solved: ...


@dataclass
class Admm:
    """The nodes of this process; every process runs one, round by round.

    `round` counts finished rounds. `start` [P] is where all nodes begin.
    """

    coupling: Coupling
    solver: Solver
    communicator: Communicator
    start: torch.Tensor
    round: int = 0
    nodes: dict[int, NodeState] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for node in self.communicator.own:
            begin = (self.start.clone(), self.start.clone(), torch.zeros_like(self.start))
            self.nodes.setdefault(node, NodeState(*begin))

    def run(self, rounds: int, on_round: Callable[[dict[str, Any]], None]) -> None:
        """Goes on to the end of round number `rounds`; tells every process of each."""
        while self.round < rounds:
            on_round(self.advance())

    def advance(self) -> dict[str, Any]:
        """One round. Raises NotFinite, and what the solver raises."""
        return self.finish(self.solve())

    def solve(self) -> dict[int, Solved]:
        """The x-steps of this process's nodes."""
        solved: dict[int, Solved] = {}
        for node, state in self.nodes.items():
            pull = state.z - state.u if self.coupling.coupled else None
            solved[node] = self.solver.solve(node, self.round, state.x, pull)
        return solved

    def finish(self, solved: Mapping[int, Solved]) -> dict[str, Any]:
        """The z-step and the dual step, and the round's figures."""
        following: dict[int, NodeState] = {}
        if self.coupling.coupled:
            values = {node: solved[node].x + state.u for node, state in self.nodes.items()}
            averaged = self.coupling.average(values, self.communicator, self.start)
            for node, state in self.nodes.items():
                x, z = solved[node].x, averaged[node]
                u = state.u + x - z if self.coupling.dual else state.u
                following[node] = NodeState(x, z, u)
        else:
            for node, state in self.nodes.items():
                following[node] = NodeState(solved[node].x, solved[node].x, state.u)
        told = self._measure(solved, following)
        self.nodes = following
        self.round += 1
        return told

    def _measure(
        self, solved: Mapping[int, Solved], following: Mapping[int, NodeState]
    ) -> dict[str, Any]:
        """The round's figures, the same on every process: lists have a value per node.

        `primal_residual` is ||x - z|| / max(||x||, ||z||) over all nodes' vectors (0 when both are
        0), `dual_residual` rho ||z - z before||, `disagreement` the largest ||z_i - mean z||.
        Nodes that are left alone have no z: `disagreement` is then that of their x.
        """
        mean = self.communicator.mean({n: s.z for n, s in following.items()}, self.start)
        names = self.solver.figures
        sent = self.communicator.sent()
        rows = {}
        for node, state in following.items():
            norms = (
                *(_norm(state.x - state.z), _norm(state.x), _norm(state.z)),
                *(_norm(state.z - self.nodes[node].z), _norm(state.z.double() - mean)),
            )
            figures = solved[node].figures
            rows[node] = [*norms, sent[node], *(figures[name] for name in names)]
        table = self.communicator.table(rows, 6 + len(names))
        apart, x, z, moved, astray, bytes_sent = table[:, :6].T.tolist()
        told: dict[str, Any] = {"round": self.round + 1}
        for place, name in enumerate(names):
            told[name] = table[:, 6 + place].tolist()
        if not all(map(math.isfinite, [*x, *z])):
            raise NotFinite(f"a vector is not finite after round {self.round + 1}")
        if self.coupling.coupled:
            largest = max(math.hypot(*x), math.hypot(*z))
            told["distance"] = apart
            told["primal_residual"] = math.hypot(*apart) / largest if largest else 0.0
            told["dual_residual"] = self.coupling.rho * math.hypot(*moved)
        told["disagreement"] = max(astray)
        told["bytes_sent"] = [round(count) for count in bytes_sent]
        return told


def _norm(vector: torch.Tensor) -> float:
    return float(torch.linalg.vector_norm(vector, dtype=torch.float64))
