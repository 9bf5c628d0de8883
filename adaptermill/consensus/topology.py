"""Graphs that nodes gossip along, and the weights they mix by."""

from __future__ import annotations

import math
from itertools import combinations

import torch

TOPOLOGIES = ("ring", "complete", "chain", "grid", "expander")


def neighbours(topology: str, nodes: int) -> list[list[int]]:
    """The neighbours of each node, sorted; a ring of two is one edge.

    `grid` is the most square r x c with r c = nodes (a chain for a prime number), `expander` the
    circulant graph with offsets 1, 2, 4, … below the number of nodes.
    """
    if topology == "ring":
        pairs = {_pair(node, (node + 1) % nodes) for node in range(nodes)}
    elif topology == "complete":
        pairs = set(combinations(range(nodes), 2))
    elif topology == "chain":
        pairs = {(node, node + 1) for node in range(nodes - 1)}
    elif topology == "grid":
        pairs = _grid(nodes)
    elif topology == "expander":
        offsets = [1 << power for power in range(nodes.bit_length()) if 1 << power < nodes]
        pairs = {_pair(node, (node + by) % nodes) for node in range(nodes) for by in offsets}
    else:
        raise ValueError(f"topology {topology!r} is none of {', '.join(TOPOLOGIES)}")
    found: list[list[int]] = [[] for _ in range(nodes)]
    for one, other in sorted(pairs):
        if one != other:
            found[one].append(other)
            found[other].append(one)
    return [sorted(each) for each in found]


def _pair(one: int, other: int) -> tuple[int, int]:
    return min(one, other), max(one, other)


def _grid(nodes: int) -> set[tuple[int, int]]:
    rows = next(rows for rows in range(math.isqrt(nodes), 0, -1) if nodes % rows == 0)
    columns = nodes // rows
    across = {(at, at + 1) for at in range(nodes) if (at + 1) % columns}
    return across | {(at, at + columns) for at in range(nodes - columns)}


def metropolis(graph: list[list[int]]) -> torch.Tensor:
    """float64 [n, n]: the Metropolis weights W of a graph given as each node's neighbours.

    w_ij = 1 / (1 + max(deg_i, deg_j)) on edges, the rest on the diagonal: symmetric, rows sum to 1
    (Xiao and Boyd, "Fast linear iterations for distributed averaging", 2004).
    """
    weights = torch.zeros(len(graph), len(graph), dtype=torch.float64)
    for node, others in enumerate(graph):
        for other in others:
            weights[node, other] = 1 / (1 + max(len(others), len(graph[other])))
        weights[node, node] = 1 - weights[node].sum()
    return weights


def second_eigenvalue(weights: torch.Tensor) -> float:
    """The second largest modulus of an eigenvalue of W: what is left of a disagreement per step."""
    moduli = torch.linalg.eigvalsh(weights).abs().sort(descending=True).values
    return float(moduli[1]) if len(moduli) > 1 else 0.0
