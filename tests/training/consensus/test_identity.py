"""What makes an adapter of consensus stale, and what does not."""

from adaptermill.config import load
from adaptermill.provenance import code_parts
from adaptermill.specs import Specs
from adaptermill.training.consensus.recipe import ConsensusRecipe
from tests.training.world import REPOSITORY

SETTINGS = {
    "sources": [{"name": "mas", "format": "trajectories", "path": "raw"}],
    "adapters": {"mas": {"method": "consensus"}, "plain": {"beta": 0, "trajectories": {}}},
}


def specs(**changes) -> Specs:
    return Specs(load({**SETTINGS, **changes}), REPOSITORY)


def test_each_method_stands_on_its_own_code():
    plain = set(code_parts(REPOSITORY / "scripts" / "train.py"))
    agreed = set(code_parts(REPOSITORY / "scripts" / "train_consensus.py"))
    assert not [name for name in plain if "consensus" in name]
    assert "training/loop.py" not in agreed and "consensus/admm.py" in agreed
    assert not [name for name in agreed if name.startswith(("evaluation/t", "fitsets/s"))]
    found = specs()
    assert found.training_code("mas") != found.training_code("plain")


def test_settings_of_training_are_those_that_the_trainer_reads():
    settings = specs().train_settings("mas")
    assert ConsensusRecipe.from_settings(settings).as_dict() == settings


def test_only_settings_that_change_a_result_enter_the_key():
    before = specs().train_settings("mas")
    running = specs(training={"processes": 4, "save_minutes": 1})
    assert running.train_settings("mas") == before
    for change in ({"rho": 0.1}, {"topology": "chain"}, {"trajectories": {"examples": "sft"}}):
        adapters = {"mas": {"method": "consensus", **change}}
        assert specs(adapters=adapters).train_settings("mas") != before
    # An anchored adapter's key has nothing of consensus in it.
    assert "rho" not in specs().train_settings("plain")


def test_the_fit_set_depends_on_the_nodes_and_not_on_how_they_agree():
    def made(**change):
        adapters = {"mas": {"method": "consensus", **change}}
        return specs(adapters=adapters).fitset_settings("mas")

    assert made() == made(consensus="gossip", rho=1.0, rounds=3, learning_rate=0.1)
    assert made() != made(partition="anchor") and made() != made(heldout_fraction=0.2)
    assert "nodes" not in specs().fitset_settings("plain")
