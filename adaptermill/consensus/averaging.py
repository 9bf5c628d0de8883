"""The averages that a z-step takes, as messages along edges."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from adaptermill.consensus.communicator import Communicator, Edge
from adaptermill.consensus.topology import metropolis, neighbours

Vectors = Mapping[int, torch.Tensor]


def coordinator(values: Vectors, communicator: Communicator, like: torch.Tensor) -> Vectors:
    """The mean on every node: node 0 gathers all vectors, averages them, and sends the mean.

    It adds in the order in which `ring` does, so the two give the same bits: training would blow
    up any difference in rounding (Adam's first step is the gradient's sign, however small it is).
    """
    others = range(1, communicator.nodes)
    inward: dict[Edge, int] = {(node, 0): like.numel() for node in others}
    gathered = communicator.exchange(inward, _from(values, inward), like)
    found: dict[int, torch.Tensor] = {}
    if 0 in values:
        whole = {0: values[0], **{node: gathered[node, 0] for node in others}}
        nodes = communicator.nodes
        chunks = [torch.tensor_split(whole[node], nodes) for node in range(nodes)]
        sums = []
        for first in range(nodes):  # chunk k starts at node k and goes around
            total = chunks[first][first]
            for step in range(1, nodes):
                total = chunks[(first + step) % nodes][first] + total
            sums.append(total)
        found[0] = torch.cat(sums) / nodes
    outward: dict[Edge, int] = {(0, node): like.numel() for node in others}
    sent = communicator.exchange(outward, _from(found, outward), like)
    return {**found, **{node: mean for (_, node), mean in sent.items()}}


def ring(values: Vectors, communicator: Communicator, like: torch.Tensor) -> Vectors:
    """The mean on every node by a ring all-reduce: each sends 2 (n - 1) / n of a vector.

    The vector is cut into n chunks. In n - 1 steps the chunks' sums travel around the ring, in
    n - 1 more the finished sums (Patarasuk and Yuan, 2009). All nodes end with the same bits.
    """
    nodes = communicator.nodes
    chunks = {node: list(torch.tensor_split(vector, nodes)) for node, vector in values.items()}
    sizes = [chunk.numel() for chunk in torch.tensor_split(like, nodes)]
    for finished in (0, 1):
        for step in range(nodes - 1):
            # Which chunk each node passes on now.
            passed = [(node + finished - step) % nodes for node in range(nodes)]
            lengths = {(n, (n + 1) % nodes): sizes[passed[n]] for n in range(nodes)}
            outgoing = {(n, (n + 1) % nodes): chunks[n][passed[n]] for n in chunks}
            for (source, node), chunk in communicator.exchange(lengths, outgoing, like).items():
                at = passed[source]
                chunks[node][at] = chunk if finished else chunks[node][at] + chunk
    return {node: torch.cat(parts) / nodes for node, parts in chunks.items()}


def gossip(
    values: Vectors,
    communicator: Communicator,
    like: torch.Tensor,
    topology: str,
    steps: int,
) -> Vectors:
    """Row i of W^steps applied to the vectors, on node i; W are the graph's Metropolis weights."""
    graph = neighbours(topology, communicator.nodes)
    weights = metropolis(graph).tolist()
    edges = {(node, other): like.numel() for node, near in enumerate(graph) for other in near}
    mixed = dict(values)
    for _ in range(steps):
        arrived = communicator.exchange(edges, _from(mixed, edges), like)
        following = {}
        for node in communicator.own:
            total = torch.zeros_like(like)
            for other in sorted([node, *graph[node]]):
                vector = mixed[node] if other == node else arrived[other, node]
                total = total + weights[node][other] * vector
            following[node] = total
        mixed = following
    return mixed


def _from(vectors: Vectors, edges: Mapping[Edge, int]) -> dict[Edge, torch.Tensor]:
    """What leaves the nodes of this process."""
    return {edge: vectors[edge[0]] for edge in edges if edge[0] in vectors}
