import pytest
import torch

from adaptermill.consensus.topology import TOPOLOGIES, metropolis, neighbours, second_eigenvalue
from tests.consensus.quadratics import GOLDEN, golden


@pytest.mark.parametrize(
    ("topology", "nodes", "expected"),
    [
        *[("ring", 4, 0.333), ("chain", 4, 0.805), ("complete", 4, 0.0), ("grid", 4, 0.333)],
        *[("ring", 8, 0.805), ("chain", 8, 0.949)],
    ],
)
def test_disagreement_dies_out_at_the_known_rate(topology, nodes, expected):
    found = second_eigenvalue(metropolis(neighbours(topology, nodes)))
    assert found == pytest.approx(expected, abs=5e-4)


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("nodes", range(1, 13))
def test_mixing_keeps_the_mean_and_every_graph_is_connected(topology, nodes):
    weights = metropolis(neighbours(topology, nodes))
    assert torch.equal(weights, weights.T) and (weights >= 0).all()
    torch.testing.assert_close(weights.sum(1), torch.ones(nodes, dtype=torch.float64))
    assert nodes == 1 or second_eigenvalue(weights) < 1 - 1e-6


def test_graphs_are_those_that_are_named():
    assert neighbours("ring", 2) == [[1], [0]]  # one edge, not two
    assert neighbours("grid", 6) == [[1, 3], [0, 2, 4], [1, 5], [0, 4], [1, 3, 5], [2, 4]]
    assert neighbours("grid", 5) == neighbours("chain", 5)
    assert neighbours("expander", 8)[0] == [1, 2, 4, 6, 7]
    assert neighbours("complete", 3) == [[1, 2], [0, 2], [0, 1]]
    with pytest.raises(ValueError, match="none of ring, complete"):
        neighbours("star", 3)


@pytest.mark.skipif(not GOLDEN.is_file(), reason="the golden values are not here")
def test_weights_are_the_golden_ones():
    for name, expected in golden()["mixing"].items():
        topology, nodes = name.split("/")
        found = metropolis(neighbours(topology, int(nodes)))
        torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))
