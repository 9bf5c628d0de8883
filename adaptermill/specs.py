"""Specs: the settings and the code of every stage, as files that are inputs of its rule.

    specs = Specs(config, repository)
    specs.write()                       # results/.work/specs/<stage>/<name>.json, if they changed
    specs.code("train")                 # the fingerprint of what scripts/train.py runs

A changed setting is a changed file, so nothing depends on what Snakemake remembers.
"""

from __future__ import annotations

import functools
import importlib.metadata
import json
import os
from pathlib import Path
from typing import Any

from adaptermill import judge_specs
from adaptermill.atomic import write_if_changed
from adaptermill.config import Config
from adaptermill.consensus_settings import ConsensusSettings
from adaptermill.consensus_stages import ConsensusStages
from adaptermill.errors import UserError
from adaptermill.message_stages import MessageStages
from adaptermill.provenance import code_fingerprint, code_parts, key
from adaptermill.report.assets import digest as templates_digest
from adaptermill.sources import (
    ExampleSource,
    ExampleTrajectoriesSource,
    JsonlSource,
    ReplaySource,
    is_trajectories,
)

RESULTS = Path("results")
WORK = RESULTS / ".work"
STORE = RESULTS / ".store"
# The fingerprints that `trust_code` goes on with.
TRUSTED_CODE = STORE / "code.json"
TRAINING_SCRIPTS = ("train", "train_consensus")
# Which settings of a recipe decide training itself; the others act through the fit set and plan.
TRAINING_SETTINGS = (
    "method",
    "rank",
    "alpha",
    "dropout",
    "lora_targets",
    "learning_rate",
    "batch_rows",
    "beta",
    "ce_on",
    "seed",
)
# The same of consensus training; `examples` of its trajectories is the objective.
CONSENSUS_SETTINGS = (
    *("method", "rank", "alpha", "dropout", "lora_targets", "learning_rate", "seed"),
    *(name for name in ConsensusSettings.model_fields if name != "dry_run"),
)
# Held-out rows of each family that the report shows.
GALLERY_ROWS = 12
NOT_FOR_SELECTION = {
    *({"init_from", *TRAINING_SETTINGS} - {"seed", "batch_rows", "beta"}),
    *ConsensusSettings.model_fields,
}
# The stage that draws each kind of example.
DRAWN_BY = {ExampleSource: "example_source", ExampleTrajectoriesSource: "example_trajectories"}


class Specs:
    """The specs of one configuration; `repository` is the checkout whose code runs."""

    def __init__(self, config: Config, repository: Path) -> None:
        self.config = config
        self.repository = repository
        self.sources = {source.name: source for source in config.sources}
        self.messages = MessageStages(config)
        self.consensus = ConsensusStages(config)
        self._fingerprints: dict[str, str] = {}
        self._noted_code: dict[str, dict[str, str]] = {}

    # ---- code ----------------------------------------------------------------------------------

    def script(self, name: str) -> Path:
        return self.repository / "scripts" / f"{name}.py"

    def code(self, script: str) -> str:
        """The fingerprint of what `scripts/<script>.py` runs; a trusted one stays what it was."""
        return self._fingerprint(script, self.script(script))

    def judge_code(self, name: str) -> str:
        """The fingerprint of the code that decides that judge's verdicts."""
        label, modules = judge_specs.modules(self.config, name)
        folder = self.repository / "adaptermill" / "judges"
        return self._fingerprint(f"judges/{label}", *(folder / module for module in modules))

    def _fingerprint(self, label: str, *entries: Path) -> str:
        if label not in self._fingerprints:
            trusted = self._trusted.get(label)
            self._fingerprints[label] = trusted or code_fingerprint(*entries)
        return self._fingerprints[label]

    @functools.cached_property
    def _trusted(self) -> dict[str, str]:
        """The fingerprints of the last build that did not trust code (or the first that did)."""
        if not self.config.training.trust_code:
            return {}
        try:
            return json.loads(TRUSTED_CODE.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except ValueError:
            raise UserError(
                f"{TRUSTED_CODE} is damaged: delete it, and code is trusted from now on"
            ) from None

    def versions(self) -> dict[str, str]:
        """Installed versions of the packages that `provenance.include_versions` names."""
        found = {}
        for package in self.config.provenance.include_versions:
            try:
                found[package] = importlib.metadata.version(package)
            except importlib.metadata.PackageNotFoundError:
                raise UserError(
                    f"provenance.include_versions names {package!r}, which is not installed here"
                ) from None
        return found

    # ---- files ---------------------------------------------------------------------------------

    def path(self, stage: str, name: str) -> str:
        return str(WORK / "specs" / stage / f"{name}.json")

    def write(self) -> None:
        for (stage, name), spec in self.all().items():
            write_if_changed(self.path(stage, name), self.text(spec))
        self.base_folder()
        write_if_changed(TRUSTED_CODE, self.text(self._fingerprints))

    @staticmethod
    def text(spec: dict[str, Any]) -> str:
        return json.dumps(spec, indent=1, sort_keys=True)

    def all(self) -> dict[tuple[str, str], dict[str, Any]]:
        """Every spec of this configuration: (stage, name) -> what is written to its file."""
        config = self.config
        specs: dict[tuple[str, str], dict[str, Any]] = {}

        def add(stage: str, name: str, script: str, settings: dict[str, Any]) -> None:
            specs[stage, name] = {
                "stage": stage,
                "name": name,
                "settings": settings,
                "code": self.code(script),
            }

        for name, source in self.sources.items():
            if (drawer := DRAWN_BY.get(type(source))) is not None:
                drawn = source.model_dump(include={"episodes", "queries", "rollouts", "seed"})
                add(drawer, name, drawer, drawn)
            add("scan", name, "scan", self._scan_settings(name))
            add("ingest", name, "ingest", self._ingest_settings(name))
        limit = config.ingest.max_quarantined
        add("summarize_ingest", "all", "summarize_ingest", {"max_quarantined": limit})
        add("base", "base", "resolve_base", self._base_settings())
        limits = {"max_tokens": config.base.max_tokens}
        # The code that measured is in the path of what is merged.
        measured = {**limits, "measure_code": self.code("measure")}
        add("merge_measures", "all", "merge_measures", measured)
        split = config.split.model_dump()
        add("split", "all", "split", {**split, "families": config.families})
        heldout = {"sides": config.split.heldout_sides, "max_tokens": config.base.max_tokens}
        add("heldout", "validation", "heldout", heldout)
        for name in judge_specs.used_judges(config):
            add("judge", name, "judge", self._judge_settings(name))
        for name, recipe in config.recipes.items():
            if self.messages.has_view(name):
                add("view", name, "view_messages", self.messages.view_settings(name))
            settings = self.fitset_settings(name)
            if recipe.judge is not None:
                judge = specs["judge", recipe.judge]["settings"]
                settings["judge_configured"] = judge["configured"]
            add("fitset", name, self.messages.fitset_script(name), settings)
            if recipe.dry_run:
                continue
            settings = {**self.train_settings(name), "versions": self.versions()}
            add("train", name, self.train_script(name), settings)
            specs["train", name]["noted"] = self.noted(name)
        add("evaluate", "all", "evaluate", self.evaluate_settings())
        tables = {
            "adapters": config.evaluated,
            "families": config.shown_families(),
            "bootstrap": config.evaluation.bootstrap,
            "tolerance": config.evaluation.tolerance,
            "seed": config.evaluation.seed,
            "weak_below": 5,
        }
        if config.replicates:
            tables["replicates"] = config.replicates
        if len(config.split.heldout_sides) > 1:
            tables["sides"] = config.split.heldout_sides
        add("tables", "all", "tables", tables)
        if self.consensus.adapters:
            add("arms", "all", "arms", tables)
        add("report", "all", "report", self._report_settings())
        return specs

    # ---- settings ------------------------------------------------------------------------------

    def _scan_settings(self, name: str) -> dict[str, Any]:
        source = self.sources[name]
        settings: dict[str, Any] = {
            "source": name,
            "format": self._format(name),
            "paths": self.raw_paths(name),
            "shard_mb": self.config.ingest.shard_mb,
            "ingest_code": self.code("ingest"),
            "ingest": self._ingest_settings(name),
        }
        if type(source) not in DRAWN_BY:
            from adaptermill.rows.scan import stat_digest

            cache = Path(self.scan_cache(name))
            settings["files"] = stat_digest(self.raw_paths(name), source.format, cache)
        return settings

    def _ingest_settings(self, name: str) -> dict[str, Any]:
        source = self.sources[name]
        settings: dict[str, Any] = {
            "source": name,
            "format": self._format(name),
            "image": self.config.ingest.image.model_dump(),
        }
        if isinstance(source, (ReplaySource, ExampleSource)):
            return {**settings, "family": source.family}
        if is_trajectories(source):
            return settings
        settings["families"] = source.families.model_dump(exclude_none=True)
        if isinstance(source, JsonlSource):
            return {**settings, "episode": source.episode}
        return {
            **settings,
            "system": _text_of(source.system_prompt, f"sources.{name}.system_prompt"),
        }

    def _format(self, name: str) -> str:
        drawn_as = {ExampleSource: "replay", ExampleTrajectoriesSource: "trajectories"}
        source = self.sources[name]
        return drawn_as.get(type(source)) or source.format

    def scan_cache(self, name: str) -> str:
        """What is known of a source's files since they were last looked at."""
        return str(WORK / "ingest" / name / "hashes")

    def _base_settings(self) -> dict[str, Any]:
        base = self.config.base
        settings: dict[str, Any] = {"model": base.model, "revision": base.revision}
        folder = self.base_folder()
        if base.model == "example":
            settings["example"] = Path(folder).name
        elif Path(base.model).is_dir():
            # An edit inside the folder must be noticed: Snakemake looks at no file in a folder.
            settings["files"] = [
                [entry.name, entry.stat().st_size, entry.stat().st_mtime_ns]
                for entry in sorted(os.scandir(base.model), key=lambda entry: entry.name)
                if entry.is_file()
            ]
        return settings

    def fitset_settings(self, name: str) -> dict[str, Any]:
        recipe = self.config.recipes[name]
        if self.messages.makes(name):
            settings = self.messages.fitset_settings(name, NOT_FOR_SELECTION)
        else:
            settings = {
                "adapter": name,
                "recipe": recipe.model_dump(exclude=NOT_FOR_SELECTION | {"trajectories"}),
                "max_tokens": self.config.base.max_tokens,
                "families_all": self.config.seven(),
                "own_families": self.config.own_families(name),
                "anchor_families": self.config.anchor_families(name),
            }
            if any(map(is_trajectories, self.config.sources)):
                settings["recipe"]["sources"] = self.config.sources_of(name)
        if recipe.episode_ids is not None:
            try:
                listed = Path(recipe.episode_ids).read_text(encoding="utf-8")
            except OSError as error:
                raise UserError(
                    f"adapters.{name}.episode_ids: {recipe.episode_ids} cannot be read "
                    f"({error.strerror}); it names one source per line"
                ) from None
            settings["listed"] = key(lines=sorted(set(listed.splitlines())))
        return settings

    def _judge_settings(self, name: str) -> dict[str, Any]:
        code = self.judge_code(name)
        return judge_specs.judge_settings(self.config, name, code, self.fitset_settings)

    def train_script(self, name: str) -> str:
        """The script that trains the adapter, by its method."""
        return "train_consensus" if self.config.recipes[name].method == "consensus" else "train"

    def training_code(self, name: str) -> str:
        """The fingerprint of what trains the adapter."""
        return self.code(self.train_script(name))

    def train_settings(self, name: str) -> dict[str, Any]:
        recipe = self.config.recipes[name]
        if recipe.method == "consensus":
            assert recipe.trajectories is not None
            settings = recipe.model_dump(include=set(CONSENSUS_SETTINGS))
            settings["examples"] = recipe.trajectories.examples
        else:
            settings = recipe.model_dump(include=set(TRAINING_SETTINGS))
        return {**settings, "init_from": recipe.init_from}

    def noted(self, name: str) -> dict[str, Any]:
        """What a finished adapter notes beside its hashes, so that a change can be explained."""
        script = self.train_script(name)
        if script not in self._noted_code:
            trusted = self.config.training.trust_code
            self._noted_code[script] = {} if trusted else code_parts(self.script(script))
        return {
            "code": self._noted_code[script],
            "code_trusted": self.config.training.trust_code,
            "selection": self.fitset_settings(name)["recipe"],
            "versions": self.versions(),
        }

    def evaluate_settings(self) -> dict[str, Any]:
        return self.config.evaluation.model_dump(include={"generate", "curve", "max_new_tokens"})

    def _report_settings(self) -> dict[str, Any]:
        evaluation = self.config.evaluation
        parents = {name: self.config.parent(name) for name in self.config.trained}
        return {
            "adapters": self.config.evaluated,
            "parents": {name: parent for name, parent in parents.items() if parent is not None},
            "tolerance": evaluation.tolerance,
            "seed": evaluation.seed,
            "gallery_rows": GALLERY_ROWS,
            "sides": self.config.split.heldout_sides,
            "templates": templates_digest(),
            **({"consensus": self.consensus.adapters} if self.consensus.adapters else {}),
        }

    def raw_paths(self, name: str) -> list[str]:
        source = self.sources[name]
        if isinstance(source, ExampleSource):
            return [str(RESULTS / "example" / "sources" / name)]
        if isinstance(source, ExampleTrajectoriesSource):
            return [str(RESULTS / "example" / "trajectories" / name)]
        return source.paths

    def base_folder(self) -> str:
        """Where the example base is built (its key needs no earlier stage); else as configured."""
        base = self.config.base
        if base.model != "example":
            return base.model
        made = {"code": self.code("example_base"), "settings": base.example.model_dump()}
        return str(STORE / "bases" / key(**made))


def _text_of(path: str | None, setting: str) -> str | None:
    """The text of a file that the configuration names, without the line feed at its end."""
    if path is None:
        return None
    try:
        return Path(path).read_text(encoding="utf-8").removesuffix("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{setting}: {path} cannot be read as UTF-8 text ({error})") from None
