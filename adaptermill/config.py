"""The configuration: typed models that are its schema, its checks and the only way to read it.

    config = load(mapping)              # refuses unknown keys and wrong values, with their path
    config.recipes["drag"].rank         # every adapter and every point of a sweep, resolved

Relative paths are relative to the working directory.
"""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import ConfigDict, Field, PrivateAttr, ValidationError, field_validator

from adaptermill import consensus_settings
from adaptermill.consensus_settings import ConsensusSettings, is_per_node
from adaptermill.errors import UserError
from adaptermill.judge_settings import (
    JUDGE_MODELS,
    NOT_FOR_ROLLOUTS,
    SECRET,
    JudgeSettings,
    RecordedJudge,
)
from adaptermill.resources import Asked, RuleResources
from adaptermill.sources import (
    NAME,
    SOURCE_MODELS,
    Count,
    Float,
    Int,
    ReplaySource,
    Section,
    Source,
    is_trajectories,
)
from adaptermill.trajectories.settings import Trajectories

SEVEN_FAMILIES = (
    "Drag & gesture",
    "Discrete selection",
    "Text entry",
    "Form transaction",
    "Navigation",
    "Out-of-page I/O",
    "Reasoning base",
)
RESERVED_NAMES = ("base", "all")


Variant = Literal["plain", "recovery", "chain"]


class ExampleBase(Section):
    """How the example base is made (only for `base.model: example`)."""

    seed: Int = 0
    steps: Count | None = Field(None, description="training steps; null is the shipped number")


class Base(Section):
    model: str = Field("example", description="hub id, local folder, or `example`", min_length=1)
    revision: str | None = Field(
        None, description="null is resolved to a commit, which enters keys"
    )
    max_tokens: Annotated[Int, Field(ge=64)] = Field(
        16384, description="longer rows are left out with the reason too_long, never cut"
    )
    example: ExampleBase = ExampleBase()


class ImageLimits(Section):
    min_side: Count = 8
    max_pixels: Count = 50_000_000
    max_aspect: Annotated[Float, Field(ge=1)] = 100


class Ingest(Section):
    shard_mb: Annotated[Float, Field(gt=0)] = 256
    max_quarantined: Annotated[Int | Float, Field(ge=0)] = Field(
        0.01, description="a count (whole number >= 1) or a share (below 1) of the lines"
    )
    image: ImageLimits = ImageLimits()


class NearDuplicates(Section):
    """When texts are near: by the Jaccard similarity of their word n-grams, as MinHash has it."""

    threshold: Annotated[Float, Field(gt=0, le=1)] = 0.85
    ngram: Count = Field(5, description="words in a row that are compared as one")
    permutations: Annotated[Int, Field(ge=16, le=4096)] = Field(
        128, description="length of a signature; more are slower and more exact"
    )


class NearLeaks(NearDuplicates):
    report: bool = Field(True, description="look for near-duplicates across the split")


class Split(Section):
    validation_fraction: Annotated[Float, Field(ge=0, lt=1)] = 0.05
    test_fraction: Annotated[Float, Field(ge=0, lt=1)] = 0.0
    group_by: str = Field(
        "source",
        description="source, near_duplicates, or a column of the rows or episodes: macro, site, …",
        min_length=1,
    )
    mixed_chains: Literal["exclude", "any"] = "exclude"
    near_duplicates: NearLeaks = NearLeaks()
    allow_leaks: bool = False

    @property
    def heldout_sides(self) -> list[str]:
        """The sides that are evaluated, each in tables of its own."""
        return ["validation", "test"] if self.test_fraction > 0 else ["validation"]


class Dedup(Section):
    key: Literal["target", "prompt+target", "prompt+target+images"] = "prompt+target+images"
    cap: Count = 1
    near: NearDuplicates | None = Field(
        None, description="leave out near-duplicates too; null leaves out exact ones alone"
    )


class Recipe(ConsensusSettings):
    """What an adapter is made of and how it is trained."""

    method: Literal["anchored", "consensus"] = "anchored"
    sources: Literal["all"] | list[str] = "all"
    families: Literal["all"] | Annotated[list[str], Field(min_length=1)] = "all"
    anchor_families: list[str] | None = None
    judge: str | None = Field(None, description="the judge whose verdict rows must pass")
    judge_threshold: Annotated[Float, Field(ge=0, le=1)] = Field(
        0.5, description="the smallest reward that is not rejected"
    )
    filters: Annotated[list[str], Field(max_length=0)] = []
    dedup: Dedup = Dedup()
    trajectories: Trajectories | None = Field(
        None, description="makes examples of a multi-agent system's messages, not of replay rows"
    )
    rank: Count = 16
    alpha: Annotated[Float, Field(gt=0)] = 32
    dropout: Annotated[Float, Field(ge=0, lt=1)] = 0.05
    lora_targets: Literal["attn_mlp", "attn_qv", "attn_all"] = "attn_mlp"
    learning_rate: Annotated[Float, Field(gt=0)] = 1e-4
    epochs: Annotated[Float, Field(gt=0)] = 3
    batch_rows: Count = 8
    beta: Annotated[Float, Field(ge=0)] = 0.1
    anchor_ratio: Annotated[Float, Field(ge=0)] = 0.5
    ce_on: Literal["all", "action"] = "all"
    fraction: Annotated[Float, Field(gt=0, le=1)] = 1.0
    exclude_variants: list[Variant] = []
    drop_done: bool = False
    episode_ids: str | None = None
    limit: Count | None = None
    max_steps: Count | None = None
    init_from: str | None = None
    seed: Annotated[Int, Field(ge=0)] = 0

    @field_validator("exclude_variants")
    @classmethod
    def _sorted_variants(cls, value: list[str]) -> list[str]:
        return sorted(set(value))

    @field_validator("families", "anchor_families", "sources")
    @classmethod
    def _sorted_names(cls, value: str | list[str] | None) -> str | list[str] | None:
        # Order and repeats mean nothing, so they must not make another key.
        return sorted(set(value)) if isinstance(value, list) else value


class Sweep(Section):
    """Each point of the grid is an adapter named `<sweep>_<key>_<value>`."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    start: str = Field(alias="from", description="the adapter that the points differ from")
    grid: Annotated[dict[str, Annotated[list[Any], Field(min_length=1)]], Field(min_length=1)]


class Training(Section):
    """How training runs are carried out; nothing here changes a result or enters a key."""

    processes: Count = 1
    save_every: Count = Field(5000, description="rows between checkpoints")
    save_minutes: Annotated[Float, Field(gt=0)] = 10
    keep_curve: bool = Field(False, description="keep an adapter at every save_every rows")
    tracking: list[Literal["tensorboard", "wandb", "trackio"]] = Field(
        [], description="experiment trackers; each must be installed"
    )
    token_budget: Count | None = Field(
        None, description="rows of more tokens are run in less memory and more time"
    )
    share_prefix: bool = Field(True, description="run what a batch's rows open with once")
    keep_references: bool = Field(
        True, description="keep the reference's log-probabilities for all epochs and adapters"
    )
    trust_code: bool = Field(
        False, description="leave code out of the keys; every product made so says it"
    )


class Evaluation(Section):
    adapters: Literal["all"] | list[str] = "all"
    generate: bool = True
    curve: bool = Field(
        True, description="score the rows also under the adapter after each earlier epoch"
    )
    max_new_tokens: Count = 256
    bootstrap: Annotated[Int, Field(ge=100)] = 2000
    tolerance: Annotated[Float, Field(ge=0, le=1)] = 0.02
    seed: Annotated[Int, Field(ge=0)] = 0


class Export(Section):
    """Copies of shards and adapters for others; nothing here enters a key."""

    to: str | None = Field(None, description="a folder, or an address such as s3://bucket/prefix")
    provider: Annotated[str, Field(pattern="^[a-z0-9-]+$")] = Field(
        "fs", description="the storage plugin of Snakemake that takes it"
    )

    def address(self, path: str) -> str:
        """Where the file at `path` below results/ is copied to."""
        return f"{str(self.to).rstrip('/')}/{path}"


class Provenance(Section):
    include_versions: list[str] = Field(
        [], description="packages whose installed version enters the keys"
    )


class Config(Section):
    """The whole of config.yaml."""

    base: Base = Base()
    sources: Annotated[list[Source], Field(min_length=1)]
    ingest: Ingest = Ingest()
    split: Split = Split()
    families: dict[str, Annotated[list[str], Field(min_length=1)]] = {}
    judges: dict[Annotated[str, Field(pattern=f"^{NAME}$")], JudgeSettings] = {}
    recipe: Recipe = Recipe()
    adapters: Annotated[dict[str, Recipe], Field(min_length=1)]
    sweeps: dict[str, Sweep] = {}
    training: Training = Training()
    evaluation: Evaluation = Evaluation()
    provenance: Provenance = Provenance()
    export: Export = Export()
    resources: dict[str, RuleResources] = {}

    _recipes: dict[str, Recipe] = PrivateAttr(default_factory=dict)

    @property
    def recipes(self) -> dict[str, Recipe]:
        """Every adapter (those of sweeps too) with its full recipe, in the order given."""
        return self._recipes

    @property
    def trained(self) -> list[str]:
        """The adapters that there are to be: all but dry runs."""
        return [name for name, recipe in self.recipes.items() if not recipe.dry_run]

    @property
    def evaluated(self) -> list[str]:
        """The adapters that the tables show, without the base."""
        if self.evaluation.adapters == "all":
            return self.trained
        return list(self.evaluation.adapters)

    @property
    def replicates(self) -> list[list[str]]:
        """Groups of evaluated adapters whose recipes differ in the seed alone, a name per seed."""
        groups: dict[str, dict[int, str]] = {}
        for name in self.evaluated:
            recipe = self.recipes[name]
            same = repr(sorted(recipe.model_dump(exclude={"seed"}).items()))
            groups.setdefault(same, {}).setdefault(recipe.seed, name)
        return [list(group.values()) for group in groups.values() if len(group) > 1]

    def seven(self) -> list[str]:
        """The seven families under the names that `families` gives them, sorted."""
        renamed = {old: new for new, olds in self.families.items() for old in olds}
        return sorted({renamed.get(name, name) for name in SEVEN_FAMILIES})

    def sources_of(self, name: str) -> list[str]:
        """The sources that adapter `name` is made of: all of its kind, or those it lists."""
        recipe = self.recipes[name]
        wanted = recipe.trajectories is not None
        named = [s.name for s in self.sources if is_trajectories(s) == wanted]
        return named if recipe.sources == "all" else list(recipe.sources)

    def shown_families(self) -> list[str]:
        """Families that the tables show also where nothing of them is held out."""
        return [] if all(map(is_trajectories, self.sources)) else self.seven()

    def own_families(self, name: str) -> list[str]:
        families = self.recipes[name].families
        return self.seven() if families == "all" else list(families)

    def anchor_families(self, name: str) -> list[str]:
        """Families of the anchor pool: as given, else the seven less the adapter's own.

        Of messages they are roles, and none are taken unless given.
        """
        recipe = self.recipes[name]
        if recipe.beta == 0 or recipe.method == "consensus":
            return []
        if recipe.anchor_families is not None:
            return list(recipe.anchor_families)
        if recipe.trajectories is not None:
            return []
        own = set(self.own_families(name))
        return [family for family in self.seven() if family not in own]

    def parent(self, name: str) -> str | None:
        """The adapter of this configuration that `name` is branched from, if any."""
        start = self.recipes[name].init_from
        return start if start in self.recipes else None

    def lineage(self, name: str) -> list[str]:
        """`name` and the adapters it is branched from, nearest first."""
        chain = [name]
        while (above := self.parent(chain[-1])) is not None:
            chain.append(above)
        return chain


def load(mapping: Mapping[str, Any], origin: str = "config.yaml") -> Config:
    """Checks `mapping` and resolves adapters and sweeps; `UserError` lists all that is wrong."""
    try:
        config = Config.model_validate(dict(mapping))
    except ValidationError as error:
        raise UserError(_explain(error, origin)) from None
    problems: list[str] = []
    recipes = _expand(config, problems)
    config._recipes.update(recipes)
    _check_references(config, problems)
    if problems:
        raise UserError(_listed(origin, problems))
    return config


def schema() -> dict[str, Any]:
    """The JSON schema of the configuration."""
    return Config.model_json_schema()


def _merge(below: Any, above: Any) -> Any:
    if isinstance(below, dict) and isinstance(above, dict):
        return {
            **below,
            **{name: _merge(below.get(name), value) for name, value in above.items()},
        }
    return above


def _expand(config: Config, problems: list[str]) -> dict[str, Recipe]:
    defaults = config.recipe.model_dump(exclude_unset=True)
    own = {name: given.model_dump(exclude_unset=True) for name, given in config.adapters.items()}
    for sweep_name, sweep in config.sweeps.items():
        if sweep.start not in config.adapters:
            problems.append(
                f"sweeps.{sweep_name}.from: no adapter {sweep.start!r}; "
                f"there are {', '.join(config.adapters)}"
            )
            continue
        for values in itertools.product(*sweep.grid.values()):
            point = dict(zip(sweep.grid, values, strict=True))
            name = "_".join([sweep_name, *(f"{k}_{_in_name(v)}" for k, v in point.items())])
            if name in own:
                problems.append(f"sweeps.{sweep_name}: two adapters would be named {name!r}")
            own[name] = _merge(own[sweep.start], point)
    recipes = {}
    for name, given in own.items():
        where = f"adapters.{name}" if name in config.adapters else f"sweeps ({name})"
        if not re.fullmatch(NAME, name) or name in RESERVED_NAMES:
            problems.append(
                f"{where}: a name is made of a-z, 0-9 and _, and is none of "
                f"{', '.join(RESERVED_NAMES)}"
            )
            continue
        try:
            values = _merge(_inherited(defaults, given, where, problems), given)
            recipes[name] = Recipe.model_validate(values)
        except ValidationError as error:
            problems.extend(f"{where}.{line}" for line in _lines(error))
    return recipes


def _inherited(
    defaults: dict[str, Any], given: dict[str, Any], where: str, problems: list[str]
) -> dict[str, Any]:
    """What the recipe decides for an adapter: of its keys, those that the adapter's method has.

    Where the methods differ, keys whose default depends on the method are not handed on either.
    """
    recipe_method = defaults.get("method", "anchored")
    method = given.get("method", recipe_method)
    consensus = method == "consensus"
    foreign = consensus_settings.ONLY_ANCHORED if consensus else ConsensusSettings.model_fields
    for key in foreign:
        if key in given:
            other = "anchored" if consensus else "consensus"
            problems.append(f"{where}.{key}: is for method: {other}, and this one is {method!r}")
    left_out = {*foreign, *(consensus_settings.DEFAULTS if method != recipe_method else ())}
    inherited = {key: value for key, value in defaults.items() if key not in left_out}
    if not consensus:
        return inherited
    making = {"examples": "dpo", **(inherited.get("trajectories") or {})}
    return {**consensus_settings.DEFAULTS, **inherited, "trajectories": making}


def _in_name(value: Any) -> str:
    """A value as it stands in an adapter's name: 0.25 -> 0_25."""
    text = f"{value:.12f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_") or "none"


def _check_references(config: Config, problems: list[str]) -> None:
    names = [source.name for source in config.sources]
    for name in sorted({name for name in names if names.count(name) > 1}):
        problems.append(f"sources: the name {name!r} is given twice")
    olds = [old for family in config.families.values() for old in family]
    for old in sorted({old for old in olds if olds.count(old) > 1}):
        problems.append(f"families: {old!r} is renamed twice")
    for name, recipe in config.recipes.items():
        if isinstance(recipe.sources, list):
            for source in recipe.sources:
                if source not in names:
                    problems.append(
                        f"adapters.{name}.sources: no source {source!r}; "
                        f"there are {', '.join(names)}"
                    )
        _check_kind(config, name, recipe, problems)
        if recipe.judge is not None and recipe.judge not in config.judges:
            there = ", ".join(config.judges) or "none"
            problems.append(
                f"adapters.{name}.judge: no judge {recipe.judge!r} in judges; there are {there}"
            )
        _check_parent(config, name, recipe, problems)
    if isinstance(config.evaluation.adapters, list):
        for name in config.evaluation.adapters:
            if name not in config.recipes:
                problems.append(
                    f"evaluation.adapters: no adapter {name!r}; "
                    f"there are {', '.join(config.recipes)}"
                )
            elif config.recipes[name].dry_run:
                problems.append(f"evaluation.adapters: {name!r} is a dry run, which is not trained")
    for rule, asked in config.resources.items():
        known = config.recipes
        problems.extend(asked.problems(rule, known, config.training.processes))


def _check_kind(config: Config, name: str, recipe: Recipe, problems: list[str]) -> None:
    """Rows of browser agents and messages of a multi-agent system are fitted in their own ways."""
    where, making = f"adapters.{name}", recipe.trajectories
    by_name = {source.name: source for source in config.sources}
    for source in recipe.sources if isinstance(recipe.sources, list) else []:
        if source in by_name and is_trajectories(by_name[source]) != (making is not None):
            text = (
                f"{source!r} holds rollouts; say how examples are made of them by `trajectories`"
                if making is None
                else f"{source!r} holds no rollouts, which `trajectories` makes examples of"
            )
            problems.append(f"{where}.sources: {text}")
    if not config.sources_of(name):
        text = (
            "no source holds rows of browser agents; for rollouts say how examples are made, for "
            "instance `trajectories: {examples: sft}`"
            if making is None
            else "no source holds rollouts (format: trajectories or example_trajectories)"
        )
        problems.append(f"{where}: {text}")
    if making is None:
        if recipe.method == "consensus":
            problems.append(
                f"{where}.trajectories: method: consensus fits messages; give a section"
            )
        return
    if making.examples == "dpo" and recipe.method == "anchored":
        problems.append(
            f"{where}.trajectories.examples: dpo makes pairs, and `method: anchored` trains on "
            "single messages: take sft or rsft, or `method: consensus`. (scripts/convert_fitset.py "
            "makes pairs of an sft fit set.)"
        )
    elsewhere = {
        "families": ("all", "adapt_roles and seats"),
        "exclude_variants": ([], "nothing: messages have no variants"),
        "drop_done": (False, "nothing: messages have no actions"),
        "dedup": (config.recipe.dedup, "dedup"),
        "judge_threshold": (config.recipe.judge_threshold, "tau"),
    }
    for setting, (unset, instead) in elsewhere.items():
        if getattr(recipe, setting) != unset:
            problems.append(
                f"{where}.{setting}: is for rows of browser agents; of messages, `trajectories` "
                f"has {instead}"
            )
    judge = config.judges.get(recipe.judge or "")
    if judge is not None and judge.kind in NOT_FOR_ROLLOUTS:
        fitting = sorted({kind for kind in JUDGE_MODELS if kind not in NOT_FOR_ROLLOUTS})
        problems.append(
            f"{where}.judge: {recipe.judge} ({judge.kind}) judges steps of browser agents; "
            f"rollouts are judged by {', '.join(fitting)}"
        )


def _check_parent(config: Config, name: str, recipe: Recipe, problems: list[str]) -> None:
    start = recipe.init_from
    if start is None:
        return
    where = f"adapters.{name}.init_from"
    if start not in config.recipes:
        if not Path(start, "adapter_config.json").is_file():
            problems.append(
                f"{where}: {start!r} is neither an adapter of this configuration "
                f"({', '.join(config.recipes)}) nor a folder with an adapter_config.json"
            )
        return
    chain = [name]
    while (above := config.recipes[chain[-1]].init_from) in config.recipes:
        chain.append(above)
        if above in chain[:-1]:
            problems.append(f"{where}: adapters branch from each other: {' -> '.join(chain)}")
            return
    parent = config.recipes[start]
    if parent.dry_run and not recipe.dry_run:
        problems.append(f"{where}: {start!r} is a dry run, which makes no adapter to start from")
    if is_per_node(parent):
        problems.append(
            f"{where}: {start!r} ends in an adapter for each node and in none for all; start from "
            f"the folder of one, for instance results/adapters/{start}/nodes/seat_0"
        )
    for setting in ("rank", "alpha", "lora_targets", "layers_last"):
        if getattr(parent, setting) != getattr(recipe, setting):
            problems.append(
                f"{where}: {setting} is {getattr(recipe, setting)} here and "
                f"{getattr(parent, setting)} in {start!r}; a branched adapter keeps its parent's"
            )


def _listed(origin: str, problems: list[str]) -> str:
    return f"{origin} is not usable as it is:\n" + "\n".join(f"  {line}" for line in problems)


def _explain(error: ValidationError, origin: str) -> str:
    return _listed(origin, _lines(error))


# Said instead of pydantic's bare "input should be …" for names that later versions will take.
_NOT_YET = {
    "method": "only `anchored` and `consensus` are in this version",
    "filters": "filters are not in this version; leave it empty",
    "credit": "only `shared` is in this version (per_role needs on-policy collection)",
}


# Members of unions show up as parts of the path that are no keys of the file.
_BRACKETS = re.compile(r"[\[\]()']")
_UNION_MEMBER = re.compile(rf"{_BRACKETS.pattern}|^(int|float|str|literal|list)$")


def _lines(error: ValidationError) -> list[str]:
    lines = []
    for item in error.errors(include_url=False):
        path = _keys(item["loc"])
        where = ".".join(str(part) for part in path)
        last = str(path[-1]) if path else ""
        if item["type"] == "extra_forbidden":
            lines.append(f"{where}: unknown key{_suggest(item['loc'])}")
        elif item["type"] == "missing":
            lines.append(f"{where}: missing")
        elif item["type"] == SECRET:  # its value is not shown
            lines.append(f"{where}: {item['msg']}")
        elif last in _NOT_YET:
            lines.append(f"{where}: {_short(item['input'])}: {_NOT_YET[last]}")
        else:
            message = item["msg"].removeprefix("Value error, ")
            lines.append(f"{where}: {_short(item['input'])} is not valid: {message}")
    return list(dict.fromkeys(lines))


def _keys(location: tuple[int | str, ...]) -> list[int | str]:
    """The part of an error's place that stands in the file."""
    if location[:1] == ("judges",):
        # A judge may be called what a kind is called: the kind is the part after the name.
        rest = [part for part in location[2:] if part not in JUDGE_MODELS]
        location = (*location[:2], *rest)
        return [part for part in location if not _BRACKETS.search(str(part))]
    path = [part for part in location if not _UNION_MEMBER.search(str(part))]
    if path[:1] == ["sources"] and path[2:3] and path[2] in SOURCE_MODELS:
        del path[2]  # the source's format
    return path


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _suggest(location: tuple[int | str, ...]) -> str:
    """What may stand where the unknown key stands."""
    model: Any = Config
    for part in location[:-1]:
        model = _step(model, part)
        if model is None:
            return ""
    fields = [field.alias or name for name, field in model.model_fields.items()]
    close = difflib.get_close_matches(str(location[-1]), fields, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return f"{hint or ';'} allowed here: {', '.join(fields)}"


_INSIDE = {
    ("Config", "adapters"): Recipe,
    ("Config", "sweeps"): Sweep,
    ("Config", "sources"): ReplaySource,
    # Any one of its kinds: the next part of the place says which it is.
    ("Config", "judges"): RecordedJudge,
    ("Config", "resources"): RuleResources,
    ("RuleResources", "adapters"): Asked,
}


def _step(model: Any, part: int | str) -> Any:
    if isinstance(model, tuple):  # inside a mapping or list: any part leads to its element
        return model[0]
    if model is ReplaySource and part in SOURCE_MODELS:
        return SOURCE_MODELS[part]
    if model is RecordedJudge and part in JUDGE_MODELS:
        return JUDGE_MODELS[part]
    inner = _INSIDE.get((model.__name__, part))
    if inner is not None:
        return (inner,)
    field = model.model_fields.get(part)
    annotation = field.annotation if field else None
    # A section, or one that may be null.
    for member in (annotation, *get_args(annotation)):
        if isinstance(member, type) and issubclass(member, Section):
            return member
    return None
