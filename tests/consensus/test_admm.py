"""The algorithm on quadratics with known optima."""

import pytest
import torch

from adaptermill.consensus.communicator import InProcess
from adaptermill.consensus.telemetry import first_growing, warnings
from adaptermill.consensus.topology import TOPOLOGIES, neighbours
from tests.consensus.quadratics import GOLDEN, Exact, drawn, golden, run

needs_golden = pytest.mark.skipif(not GOLDEN.is_file(), reason="the golden values are not here")


@pytest.mark.parametrize("consensus", ["coordinator", "ring"])
@pytest.mark.parametrize("nodes", [1, 2, 3, 4, 7])
def test_exact_consensus_reaches_the_optimum(consensus, nodes):
    exact = drawn(nodes, 5)
    admm, told = run(exact, 200, consensus=consensus)
    for state in admm.nodes.values():
        assert (state.z - exact.optimum).abs().max() < 1e-10
    assert sum(state.u for state in admm.nodes.values()).abs().max() < 1e-10
    assert told[-1]["primal_residual"] < 1e-9 and told[-1]["disagreement"] < 1e-15
    assert told[-1]["dual_residual"] < 1e-9 < told[0]["dual_residual"]


def test_ring_and_coordinator_agree_to_the_last_bit():
    for size in (1, 3, 8):  # vectors shorter than the ring, too
        one, _ = run(drawn(5, size), 7, consensus="ring")
        other, _ = run(drawn(5, size), 7, consensus="coordinator")
        for node in range(5):
            assert torch.equal(one.nodes[node].z, other.nodes[node].z)


@needs_golden
def test_rounds_are_the_golden_ones():
    def tensor(values):
        return torch.tensor(values, dtype=torch.float64)

    def check(admm, zs, expected):
        for round_, z in enumerate(expected["z"]):
            torch.testing.assert_close(zs[round_], tensor(z), atol=1e-12, rtol=0)
        for name in ("x", "u"):
            found = torch.stack([getattr(state, name) for state in admm.nodes.values()])
            torch.testing.assert_close(found, tensor(expected[name]), atol=1e-12, rtol=0)

    def rounds(case, **coupling):
        exact = Exact(tensor(case["curvature"]), tensor(case["center"]), case["rho"])
        zs = []
        for count in range(1, case["rounds"] + 1):
            admm, _ = run(exact, count, **coupling)
            zs.append(torch.stack([state.z for state in admm.nodes.values()]))
        return admm, zs

    for case in golden()["admm"]:
        for consensus in ("ring", "coordinator"):
            check(*rounds(case, consensus=consensus), case["exact"])
            check(*rounds(case, consensus=consensus, dual=False), case["no_dual"])
        for name, expected in case["gossip"].items():
            topology, steps = name.split("/")
            arm = {"consensus": "gossip", "topology": topology, "gossip_steps": int(steps)}
            check(*rounds(case, **arm), expected)


def test_gossip_is_biased_with_one_step_and_hardly_with_ten():
    exact = drawn(4, 5)
    wrong = {}
    for steps in (1, 10):
        admm, told = run(exact, 200, consensus="gossip", gossip_steps=steps)
        wrong[steps] = max(
            float((state.z - exact.optimum).abs().max()) for state in admm.nodes.values()
        )
        assert not warnings(told)
    assert wrong[1] > 0.01 and wrong[10] < 1e-3


def test_gossip_over_a_complete_graph_is_exact_consensus():
    gossip, _ = run(drawn(5, 3), 9, consensus="gossip", topology="complete")
    ring, _ = run(drawn(5, 3), 9)
    for node in range(5):
        torch.testing.assert_close(gossip.nodes[node].z, ring.nodes[node].z)


def test_without_duals_u_stays_zero_and_the_optimum_is_missed():
    exact = drawn(4, 5)
    admm, _ = run(exact, 200, dual=False)
    assert all(state.u.count_nonzero() == 0 for state in admm.nodes.values())
    # z is where the pulls of the nodes' proximal points balance.
    weights = exact.curvature / (exact.curvature + exact.rho)
    expected = (weights[:, None] * exact.center).sum(0) / weights.sum()
    torch.testing.assert_close(admm.nodes[0].z, expected)
    assert (expected - exact.optimum).abs().max() > 0.01


def test_nodes_left_alone_find_their_own_optima_and_send_nothing():
    exact = drawn(4, 5)
    admm, told = run(exact, 3, coupled=False)
    for node, state in admm.nodes.items():
        assert torch.equal(state.x, exact.center[node])
    assert told[-1]["bytes_sent"] == [0, 0, 0, 0]
    assert "primal_residual" not in told[-1] and told[-1]["disagreement"] > 0.1


def test_one_node_is_the_same_in_all_arms_but_alone():
    exact = drawn(1, 5)
    arms = [
        {"consensus": "ring"},
        {"consensus": "coordinator"},
        {"dual": False},
        *({"consensus": "gossip", "topology": name} for name in TOPOLOGIES),
    ]
    states = [run(exact, 4, **arm)[0].nodes[0] for arm in arms]
    for state in states:
        assert torch.equal(state.z, states[0].z) and torch.equal(state.x, states[0].x)
    alone, _ = run(exact, 4, coupled=False)
    assert not torch.allclose(alone.nodes[0].x, states[0].x)  # no proximal term


def test_a_penalty_far_below_the_curvature_makes_gossip_drift_apart_and_is_warned_of():
    exact = Exact(torch.full((4,), 10.0, dtype=torch.float64), drawn(4, 5).center, rho=0.05)
    _, told = run(exact, 60, consensus="gossip", topology="chain")
    _, exactly = run(exact, 60)
    assert first_growing(exactly) is None and not warnings(exactly)
    at = first_growing(told)
    assert at is not None and "diverges" in warnings(told)[0]
    assert max(told[-1]["distance"]) > 2 * max(told[1]["distance"])


@pytest.mark.parametrize("nodes", [2, 3, 4, 6])
def test_bytes_are_those_that_the_method_needs(nodes):
    size = 4 * nodes
    for steps, topology in ((1, "ring"), (3, "expander"), (2, "grid")):
        arm = {"consensus": "gossip", "topology": topology, "gossip_steps": steps}
        _, told = run(drawn(nodes, size), 2, **arm)
        degrees = [len(others) for others in neighbours(topology, nodes)]
        for line in told:
            assert line["bytes_sent"] == [steps * degree * size * 8 for degree in degrees]
    _, told = run(drawn(nodes, size), 1, consensus="ring")
    assert told[0]["bytes_sent"] == [2 * (nodes - 1) * size * 8 // nodes] * nodes
    _, told = run(drawn(nodes, size), 1, consensus="coordinator")
    assert told[0]["bytes_sent"] == [(nodes - 1) * size * 8, *[size * 8] * (nodes - 1)]


def test_residuals_are_zero_where_nothing_moves():
    still = Exact(torch.ones(3, dtype=torch.float64), torch.zeros(3, 2, dtype=torch.float64), 3.0)
    _, told = run(still, 2)
    assert told[0]["primal_residual"] == told[0]["dual_residual"] == 0


def test_residuals_are_those_of_their_formulas():
    exact = drawn(3, 4)
    before, _ = run(exact, 1, communicator=InProcess(3))
    after, told = run(exact, 2)
    x = torch.stack([state.x for state in after.nodes.values()])
    z = after.nodes[0].z
    line = told[1]
    scale = max(x.norm(), 3**0.5 * z.norm())
    assert line["primal_residual"] == pytest.approx(float((x - z).norm() / scale))
    dual = 3.0 * 3**0.5 * (z - before.nodes[0].z).norm()
    assert line["dual_residual"] == pytest.approx(float(dual))
    assert line["distance"] == pytest.approx((x - z).norm(dim=1).tolist())
    costs = exact.curvature / 2 * (x - exact.center).square().sum(1)
    assert line["objective"] == pytest.approx(costs.tolist())
