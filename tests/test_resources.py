"""What jobs ask for: the configuration's numbers, per adapter, more of both with every attempt."""

from types import SimpleNamespace

import pytest

from adaptermill.config import load
from adaptermill.errors import UserError
from adaptermill.resources import RULES, for_snakemake, threads
from tests.workflow.running import REPOSITORY


def configured(processes: int = 1, **resources):
    return load(
        {
            "sources": [{"name": "main", "format": "replay", "path": "data"}],
            "adapters": {"pooled": {}, "drag": {}},
            "training": {"processes": processes},
            "resources": resources,
        }
    ).resources


def asked(resources, name: str | None, attempt: int = 1) -> dict:
    functions = for_snakemake(resources, lambda wildcards: wildcards.name)
    wildcards = SimpleNamespace(name=name)
    return {name: function(wildcards, attempt) for name, function in functions.items()}


def test_memory_and_time_grow_by_attempt_and_nothing_else_does():
    train = configured(
        train={"mem_mb": 1001, "runtime": 60, "slurm_partition": "gpu", "disk_mb": 7}
    )["train"]
    assert [asked(train, "drag", attempt)["mem_mb"] for attempt in (1, 2, 3)] == [1001, 1502, 2253]
    assert [asked(train, "drag", attempt)["runtime"] for attempt in (1, 2, 3)] == [60, 90, 135]
    last = asked(train, "drag", 3)
    assert (last["slurm_partition"], last["disk_mb"]) == ("gpu", 7)


def test_an_adapters_own_numbers_come_first():
    train = configured(
        train={"runtime": 60, "gpus": 1, "threads": 4, "adapters": {"pooled": {"runtime": 600}}}
    )["train"]
    assert asked(train, "drag") == {"runtime": 60, "gpu": 1}
    assert asked(train, "pooled") == {"runtime": 600, "gpu": 1}
    assert threads(train, 2) == 4


def test_several_nodes_are_asked_for_as_the_plugin_wants_them():
    train = configured(4, train={"gpus": 4, "nodes": 2, "slurm_extra": "--signal=TERM@60"})["train"]
    assert asked(train, "drag") == {
        **{"mpi": "srun", "nodes": 2, "tasks": 2, "gres": "gpu:2", "tasks_per_gpu": 0},
        "slurm_extra": "--signal=TERM@60",
    }


@pytest.mark.parametrize(
    ("resources", "message"),
    [
        ({"trian": {"mem_mb": 1}}, "resources.trian: there is no such rule"),
        ({"train": {"mem_mb": 0}}, "resources.train.mem_mb: 0 is not valid"),
        ({"train": {"gpus": 2}}, "resources.train.gpus: 2 is not training.processes"),
        ({"train": {"nodes": 2}}, "2 nodes cannot share training.processes"),
        ({"evaluate": {"nodes": 2}}, "resources.evaluate.nodes: is for train alone"),
        ({"split": {"adapters": {"drag": {}}}}, "jobs of split are not about single adapters"),
        ({"train": {"adapters": {"darg": {}}}}, "resources.train.adapters.darg: no such adapter"),
        (
            {"train": {"adapters": {"drag": {"runtime": 9}}}},
            "resources.train.adapters.drag.runtime: give resources.train.runtime too",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(resources, message):
    with pytest.raises(UserError, match=message):
        configured(**resources)


def test_every_rule_can_be_given_resources():
    text = "".join(path.read_text("utf-8") for path in (REPOSITORY / "rules").glob("*.smk"))
    for rule in RULES:
        assert f'**pipeline.resources("{rule}")' in text, rule
