"""The configuration refuses what is wrong, says where, and means the same however it is spelled."""

import json
from pathlib import Path

import pytest
import yaml

from adaptermill.config import load, schema
from adaptermill.errors import UserError

REPOSITORY = Path(__file__).resolve().parents[1]
SMALL = {
    "sources": [{"name": "example", "format": "example"}],
    "adapters": {"pooled": {"beta": 0}, "drag": {"families": ["Drag & gesture"]}},
}


def shipped() -> dict:
    return yaml.safe_load((REPOSITORY / "config.yaml").read_text(encoding="utf-8"))


def test_shipped_configuration_is_valid_and_names_the_adapters_that_users_train():
    config = load(shipped())
    assert {"pooled", "drag", "io", "select", "rest", "reasoning"} <= set(config.recipes)
    assert config.anchor_families("drag") == [f for f in config.seven() if f != "Drag & gesture"]
    assert config.anchor_families("pooled") == []


def test_every_key_of_the_shipped_configuration_has_prose_above_it():
    above = ""
    for line in (REPOSITORY / "config.yaml").read_text(encoding="utf-8").splitlines():
        if line and line[0].isalpha():
            assert above.startswith("#"), f"no comment above {line!r}"
        above = line


def test_committed_schema_is_the_generated_one():
    committed = json.loads((REPOSITORY / "docs" / "config.schema.json").read_text("utf-8"))
    assert committed == json.loads(json.dumps(schema())), "run `make schema`"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"spilt": {}}, ["spilt: unknown key", "did you mean 'split'"]),
        ({"adapters": {"drag": {"rnak": 4}}}, ["adapters.drag.rnak: unknown key", "'rank'"]),
        ({"adapters": {"drag": {"rank": 0}}}, ["adapters.drag.rank: 0", "greater than or equal"]),
        ({"adapters": {"drag": {"lora_targets": "q"}}}, ["'attn_mlp', 'attn_qv' or 'attn_all'"]),
        ({"adapters": {"base": {}}}, ["adapters.base", "none of base, all"]),
        ({"adapters": {"Drag": {}}}, ["adapters.Drag", "a-z, 0-9 and _"]),
        ({"adapters": {"a": {"init_from": "b"}, "b": {"init_from": "a"}}}, ["a -> b -> a"]),
        ({"adapters": {"a": {}, "b": {"init_from": "a", "rank": 4}}}, ["rank is 4 here and 16"]),
        ({"adapters": {"a": {"init_from": "nowhere"}}}, ["'nowhere' is neither"]),
        ({"adapters": {"a": {"sources": ["x"]}}}, ["no source 'x'; there are example"]),
        ({"sweeps": {"s": {"from": "x", "grid": {"rank": [1]}}}}, ["no adapter 'x'"]),
        ({"sweeps": {"s": {"from": "drag", "grid": {"rank": [0]}}}}, ["s_rank_0", "greater than"]),
        ({"split": {"validation_fraction": True}}, ["true is not a number"]),
        ({"split": {"near_duplicates": {"threshold": 0}}}, ["near_duplicates.threshold: 0"]),
        ({"recipe": {"dedup": {"near": {"ngrams": 3}}}}, ["near.ngrams: unknown key", "'ngram'"]),
        ({"sources": [{"name": "x", "format": "replay"}]}, ["sources.0.path: missing"]),
        ({"sources": [{"name": "x", "format": "xml"}]}, ["'replay', 'example'"]),
        ({"sources": []}, ["sources"]),
        ({"evaluation": {"adapters": ["nobody"]}}, ["no adapter 'nobody'; there are pooled, drag"]),
        ({"recipe": {"epochs": float("nan")}}, ["recipe.epochs"]),
    ],
)
def test_wrong_values_are_refused_with_path_value_and_what_is_allowed(change, expected):
    with pytest.raises(UserError) as refused:
        load({**SMALL, **change})
    for text in expected:
        assert text in str(refused.value)


def test_sweeps_make_one_adapter_per_point():
    grid = {"fraction": [0.1, 0.25], "seed": [0, 1]}
    config = load({**SMALL, "sweeps": {"scale": {"from": "drag", "grid": grid}}})
    point = config.recipes["scale_fraction_0_25_seed_1"]
    assert (point.fraction, point.seed, point.families) == (0.25, 1, ["Drag & gesture"])
    assert len(config.recipes) == 2 + 4


def test_an_adapter_overrides_single_keys_of_nested_settings():
    config = load(
        {**SMALL, "recipe": {"dedup": {"key": "target"}}, "adapters": {"a": {"dedup": {"cap": 3}}}}
    )
    assert (config.recipes["a"].dedup.key, config.recipes["a"].dedup.cap) == ("target", 3)


def test_renamed_families_count_among_the_seven():
    renamed = {"Typing": ["Text entry", "Form transaction"]}
    config = load({**SMALL, "families": renamed})
    assert "Typing" in config.anchor_families("drag")
    assert "Text entry" not in config.seven() and len(config.seven()) == 6


MAS = {"name": "mas", "format": "example_trajectories"}
MIXED = {
    "sources": [*SMALL["sources"], MAS],
    "judges": {"format": {"kind": "action_format"}, "done": {"kind": "episode_success"}},
}


def with_messages(**recipe) -> dict:
    return {**MIXED, "adapters": {"m": {"beta": 0, **recipe}, "drag": {}}}


@pytest.mark.parametrize(
    ("recipe", "expected"),
    [
        ({"trajectories": {"tua": 1}}, ["m.trajectories.tua: unknown key", "'tau'"]),
        ({"trajectories": {"tau": 1.5}}, ["m.trajectories.tau: 1.5"]),
        ({"trajectories": {"credit": "per_role"}}, ["trajectories.credit", "only `shared`"]),
        ({"trajectories": {"pass_band": [1, 0]}}, ["trajectories.pass_band", "strictly inside"]),
        ({"trajectories": {"seats": []}}, ["trajectories.seats"]),
        ({"trajectories": {"fit_prompt": {}}}, ["trajectories.fit_prompt"]),
        ({"trajectories": {"fit_prompt": [{"role": "robot", "content": ""}]}}, ["role: 'robot'"]),
        ({"trajectories": {"examples": "dpo"}}, ["dpo makes pairs", "sft or rsft"]),
        ({"trajectories": {}, "sources": ["example"]}, ["m.sources: 'example' holds no rollouts"]),
        ({"sources": ["mas"]}, ["m.sources: 'mas' holds rollouts", "`trajectories`"]),
        ({"trajectories": {}, "families": ["planner"]}, ["m.families", "adapt_roles and seats"]),
        ({"trajectories": {}, "drop_done": True}, ["m.drop_done: is for rows of browser agents"]),
        ({"trajectories": {}, "exclude_variants": ["chain"]}, ["m.exclude_variants"]),
        ({"trajectories": {}, "dedup": {"cap": 2}}, ["m.dedup", "`trajectories` has dedup"]),
        ({"trajectories": {}, "judge": "format"}, ["m.judge: format", "rollouts are judged by"]),
        ({"trajectories": {}, "judge": "done"}, ["m.judge: done (episode_success)", "outcome"]),
        ({"trajectories": {}, "judge_threshold": 0.9}, ["m.judge_threshold", "has tau"]),
    ],
)
def test_messages_and_rows_of_browser_agents_keep_apart(recipe, expected):
    with pytest.raises(UserError) as refused:
        load(with_messages(**recipe))
    for text in expected:
        assert text in str(refused.value)


def test_all_sources_are_all_of_an_adapter_s_kind():
    config = load(with_messages(trajectories={"examples": "rsft"}))
    assert (config.sources_of("m"), config.sources_of("drag")) == (["mas"], ["example"])
    assert config.anchor_families("m") == []
    with pytest.raises(UserError, match=r"adapters\.drag: no source holds rows of browser agents"):
        load({**with_messages(trajectories={}), "sources": [MAS]})
    with pytest.raises(UserError, match=r"adapters\.m: no source holds rollouts"):
        load({**with_messages(trajectories={}), "sources": SMALL["sources"]})


def test_settings_of_messages_are_inherited_key_by_key_and_swept_as_a_whole():
    recipe = {"beta": 0, "trajectories": {"tau": 0.5, "dedup": {"cap": 7}}}
    grid = {"trajectories": [{"examples": "sft"}, {"examples": "rsft"}]}
    config = load(
        {
            "sources": [MAS],
            "recipe": recipe,
            "adapters": {"m": {"trajectories": {"max_pairs": 2}}},
            "sweeps": {"s": {"from": "m", "grid": grid}},
        }
    )
    made = config.recipes["m"].trajectories
    assert (made.tau, made.dedup.cap, made.dedup.key, made.max_pairs) == (0.5, 7, "target", 2)
    assert config.recipes["s_trajectories_examples_rsft"].trajectories.examples == "rsft"
    assert config.shown_families() == []


AGREEING = {
    **SMALL,
    "sources": [{"name": "mas", "format": "trajectories", "path": "raw"}],
}


def test_consensus_has_defaults_of_its_own_and_takes_what_is_said():
    config = load(
        {
            **AGREEING,
            "recipe": {"alpha": 32, "dropout": 0.05, "learning_rate": 1e-4, "rank": 8, "beta": 0.2},
            "adapters": {
                "ring": {"method": "consensus"},
                "said": {"method": "consensus", "alpha": 8, "trajectories": {"examples": "sft"}},
                "anchored": {"beta": 0, "trajectories": {}},
            },
            "sweeps": {"tau": {"from": "ring", "grid": {"gossip_steps": [1, 3]}}},
        }
    )
    ring = config.recipes["ring"]
    assert (ring.alpha, ring.dropout, ring.learning_rate, ring.rank) == (16, 0, 1e-3, 8)
    assert (ring.rounds, ring.local_steps, ring.rho, ring.grad_clip) == (20, 16, 0.03, 0.01)
    assert ring.trajectories.examples == "dpo" and ring.consensus == "ring"
    said = config.recipes["said"]
    assert said.alpha == 8 and said.trajectories.examples == "sft"
    assert config.recipes["anchored"].trajectories.examples == "sft"
    assert config.recipes["anchored"].alpha == 32
    assert config.recipes["tau_gossip_steps_3"].gossip_steps == 3


def test_a_recipe_of_consensus_is_handed_on_whole():
    recipe = {"method": "consensus", "alpha": 4, "rounds": 3, "trajectories": {"examples": "rsft"}}
    config = load({**AGREEING, "recipe": recipe, "adapters": {"a": {}, "b": {"pooled": True}}})
    for name in ("a", "b"):
        found = config.recipes[name]
        assert (found.alpha, found.rounds, found.trajectories.examples) == (4, 3, "rsft")


@pytest.mark.parametrize(
    ("adapters", "expected"),
    [
        ({"a": {"method": "consensus", "epochs": 2}}, "a.epochs: is for method: anchored"),
        ({"a": {"trajectories": {}, "rho": 1.0}}, "a.rho: is for method: consensus"),
        ({"a": {"method": "consensus", "rho": 0}}, "a.rho"),
        ({"a": {"method": "consensus", "topology": "star"}}, "a.topology"),
        (
            {"a": {"method": "consensus", "trajectories": None}},
            "method: consensus fits messages; give a section",
        ),
        (
            {
                "a": {"method": "consensus", "local_only": True},
                "b": {"method": "consensus", "init_from": "a"},
            },
            "'a' ends in an adapter for each node",
        ),
        (
            {
                "a": {"method": "consensus", "dry_run": True},
                "b": {"method": "consensus", "init_from": "a"},
            },
            "'a' is a dry run, which makes no adapter",
        ),
        (
            {
                "a": {"method": "consensus"},
                "b": {"method": "consensus", "init_from": "a", "layers_last": 2},
            },
            "layers_last is 2 here and None in 'a'",
        ),
    ],
)
def test_what_consensus_cannot_be_is_refused_with_its_place(adapters, expected):
    with pytest.raises(UserError) as refused:
        load({**AGREEING, "adapters": adapters})
    assert expected in str(refused.value)


def test_dry_runs_are_not_evaluated():
    adapters = {"a": {"method": "consensus", "dry_run": True}, "b": {"method": "consensus"}}
    config = load({**AGREEING, "adapters": adapters})
    assert config.trained == config.evaluated == ["b"]
    with pytest.raises(UserError, match="'a' is a dry run, which is not trained"):
        load({**AGREEING, "adapters": adapters, "evaluation": {"adapters": ["a"]}})
