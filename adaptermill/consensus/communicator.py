"""How nodes send vectors to each other: within one process, or between those of torch.distributed.

Messages follow one list of edges that every process goes through in the same order. The arithmetic
is done node by node on what has arrived, so the number of processes changes no bit of a result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import torch
import torch.distributed as dist

Edge = tuple[int, int]  # from a node to another


class Communicator(Protocol):
    """`nodes` in all, of which this process carries those in `own`."""

    nodes: int
    own: list[int]

    def exchange(
        self, lengths: Mapping[Edge, int], outgoing: Mapping[Edge, torch.Tensor], like: torch.Tensor
    ) -> dict[Edge, torch.Tensor]:
        """Sends vectors along edges; returns those that arrive at own nodes.

        `lengths` lists all edges of all processes, in one order, with the vectors' lengths;
        `outgoing` holds those that leave own nodes. `like` gives dtype and device.
        """
        ...

    def sent(self) -> dict[int, int]:
        """Bytes that each own node has sent along edges since the last call."""
        ...

    def table(self, rows: Mapping[int, Sequence[float]], width: int) -> torch.Tensor:
        """float64 [nodes, width]: what all nodes measure, on every process; not counted as sent."""
        ...

    def mean(self, vectors: Mapping[int, torch.Tensor], like: torch.Tensor) -> torch.Tensor:
        """float64 mean over all nodes, summed in their order; to measure by, not counted."""
        ...


class _Counting:
    """Counts what nodes send, at the moment they send it."""

    def __init__(self, nodes: int, own: list[int]) -> None:
        self.nodes = nodes
        self.own = own
        self._sent = dict.fromkeys(own, 0)

    def _count(self, edge: Edge, message: torch.Tensor) -> None:
        self._sent[edge[0]] += message.numel() * message.element_size()

    def sent(self) -> dict[int, int]:
        counted, self._sent = self._sent, dict.fromkeys(self.own, 0)
        return counted


class InProcess(_Counting):
    """All nodes in this process."""

    def __init__(self, nodes: int) -> None:
        super().__init__(nodes, list(range(nodes)))

    def exchange(
        self, lengths: Mapping[Edge, int], outgoing: Mapping[Edge, torch.Tensor], like: torch.Tensor
    ) -> dict[Edge, torch.Tensor]:
        for edge in lengths:
            self._count(edge, outgoing[edge])
        return {edge: outgoing[edge] for edge in lengths}

    def table(self, rows: Mapping[int, Sequence[float]], width: int) -> torch.Tensor:
        return torch.tensor([list(rows[node]) for node in self.own], dtype=torch.float64)

    def mean(self, vectors: Mapping[int, torch.Tensor], like: torch.Tensor) -> torch.Tensor:
        total = torch.zeros_like(like, dtype=torch.float64)
        for node in self.own:
            total += vectors[node]
        return total / self.nodes


def owners(nodes: int, processes: int) -> list[int]:
    """The process that carries each node: consecutive nodes together; some processes get none."""
    busy = min(nodes, processes)
    return [node * busy // nodes for node in range(nodes)]


class Distributed(_Counting):
    """Nodes spread over the processes of the default group of torch.distributed.

    `crossed` is how many bytes this process has sent to others; edges within it cost none.
    """

    def __init__(self, nodes: int) -> None:
        self.rank = dist.get_rank()
        self.owner = owners(nodes, dist.get_world_size())
        super().__init__(nodes, [node for node in range(nodes) if self.owner[node] == self.rank])
        self.crossed = 0

    def exchange(
        self, lengths: Mapping[Edge, int], outgoing: Mapping[Edge, torch.Tensor], like: torch.Tensor
    ) -> dict[Edge, torch.Tensor]:
        arrived: dict[Edge, torch.Tensor] = {}
        operations = []
        for tag, (edge, length) in enumerate(lengths.items()):
            source, target = (self.owner[node] for node in edge)
            if source == self.rank:
                self._count(edge, outgoing[edge])
                if target == self.rank:
                    arrived[edge] = outgoing[edge]
                else:
                    message = outgoing[edge].contiguous()
                    self.crossed += message.numel() * message.element_size()
                    operations.append(dist.P2POp(dist.isend, message, target, tag=tag))
            elif target == self.rank:
                arrived[edge] = torch.empty(length, dtype=like.dtype, device=like.device)
                operations.append(dist.P2POp(dist.irecv, arrived[edge], source, tag=tag))
        if operations:
            for request in dist.batch_isend_irecv(operations):
                request.wait()
        return arrived

    def table(self, rows: Mapping[int, Sequence[float]], width: int) -> torch.Tensor:
        whole = torch.zeros(self.nodes, width, dtype=torch.float64)
        for node, row in rows.items():
            whole[node] = torch.tensor(list(row), dtype=torch.float64)
        whole = whole.cuda() if dist.get_backend() == "nccl" else whole
        dist.all_reduce(whole)  # all but one term of each sum are 0, so its order does not matter
        return whole.cpu()

    def mean(self, vectors: Mapping[int, torch.Tensor], like: torch.Tensor) -> torch.Tensor:
        total = torch.zeros_like(like, dtype=torch.float64)
        for node in range(self.nodes):
            vector = vectors[node].contiguous() if node in vectors else torch.empty_like(like)
            dist.broadcast(vector, self.owner[node])
            total += vector
        return total / self.nodes
