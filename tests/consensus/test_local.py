"""Adam's x-steps, stopped and gone on with."""

import pytest
import torch

from adaptermill.consensus.admm import Admm, Coupling, NotFinite
from adaptermill.consensus.communicator import InProcess
from adaptermill.consensus.local import AdamSteps


def gradient(node, step, x):
    """Of noisy quadratics: the same for a node and step, whenever it is asked for."""
    noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(100 * step + node))
    return {"objective": float((x - node).square().sum() / 2)}, x - node + 0.1 * noise


class Stop(Exception):
    pass


def steps(**changes):
    settings = {"steps": 5, "learning_rate": 0.05, "clip": 0.4, "rho": 0.2}
    return AdamSteps(gradient, **{**settings, **changes})


def test_an_x_step_is_adam_on_the_clipped_gradient_of_the_whole():
    start, pull = torch.full((3,), 0.5), torch.tensor([1.0, -1.0, 0.0])
    found = steps().solve(2, 3, start, pull)
    x = torch.nn.Parameter(start.clone())
    optimizer, costs = torch.optim.Adam([x], lr=0.05), []
    for step in range(15, 20):  # those of the fourth round
        figures, own = gradient(2, step, x.detach())
        costs.append(figures["objective"])
        x.grad = own + 0.2 * (x.detach() - pull)
        assert torch.nn.utils.clip_grad_norm_([x], 0.4) > 0.4
        optimizer.step()
    assert torch.equal(found.x, x.detach())
    assert found.figures["objective"] == pytest.approx(sum(costs) / 5)
    alone = steps(rho=0.0).solve(2, 3, start, None)
    assert not torch.equal(alone.x, found.x)
    assert torch.equal(start, torch.full((3,), 0.5))  # where a node stands is not written over


@pytest.mark.parametrize("keep_adam", [False, True])
def test_a_stop_after_any_step_changes_no_bit(keep_adam):
    whole = Admm(Coupling(rho=0.2), steps(keep_adam=keep_adam), InProcess(2), torch.zeros(3))
    whole.run(3, lambda line: whole.solver.end_round())

    for last in range(1, 29, 3):
        calls = 0

        def stop(node, step, last=last):
            nonlocal calls
            calls += 1
            if calls == last:
                raise Stop

        first = steps(keep_adam=keep_adam, after_step=stop)
        broken = Admm(Coupling(rho=0.2), first, InProcess(2), torch.zeros(3))
        with pytest.raises(Stop):
            broken.run(3, lambda line, first=first: first.end_round())
        second = steps(keep_adam=keep_adam, partial=first.partial, kept=first.kept)
        resumed = Admm(
            Coupling(rho=0.2),
            second,
            InProcess(2),
            torch.zeros(3),
            round=broken.round,
            nodes=broken.nodes,
        )
        resumed.run(3, lambda line, second=second: second.end_round())
        for node in range(2):
            for name in ("x", "z", "u"):
                one, other = (getattr(a.nodes[node], name) for a in (whole, resumed))
                assert torch.equal(one, other)


def test_keeping_adams_moments_makes_a_difference():
    found = []
    for keep_adam in (False, True):
        solver = steps(keep_adam=keep_adam)
        admm = Admm(Coupling(rho=0.2), solver, InProcess(2), torch.zeros(3))
        admm.run(2, lambda line, solver=solver: solver.end_round())
        found.append(admm.nodes[0].z)
    assert not torch.equal(*found)


def test_what_is_not_finite_stops_the_run_and_is_named():
    def broken(node, step, x):
        figures, own = gradient(node, step, x)
        return figures, own * (float("nan") if (node, step) == (1, 7) else 1)

    solver = AdamSteps(broken, steps=5, learning_rate=0.05, clip=0.4, rho=0.2)
    admm = Admm(Coupling(rho=0.2), solver, InProcess(2), torch.zeros(3))
    with pytest.raises(NotFinite, match="gradient of node 1 is not finite in round 2, at step 3"):
        admm.run(3, lambda line: solver.end_round())
