"""What the Snakefile knows: settings of every stage as spec files, and keys of finished products.

Three ideas keep builds true:

*Spec files.* Everything that decides a cheap stage's output (its settings and the meaning of its
code) is written to `results/.work/specs/<stage>/<name>.json` while the Snakefile is read, and only
if it changed. A spec is an input of its rule, so a changed setting is a changed file: nothing
depends on what Snakemake remembers in `.snakemake`.

*Records.* Each cheap stage notes by content what it was made from (made.py). While the Snakefile is
read, a stage whose record does not fit is requested again, whatever its file times say.

*Keys.* Expensive products (shards, measured shards, adapters, evaluations) lie under a path that
holds the hash of all they depend on. A key that needs the outcome of an earlier stage is asked for
behind a checkpoint; when that outcome is what it was, so is the path, and nothing is done again.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import json
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from snakemake.exceptions import IncompleteCheckpointException
from snakemake.io import ancient, checkpoint_target

from adaptermill import resources
from adaptermill.config import Config, NearDuplicates, load
from adaptermill.errors import UserError
from adaptermill.judge_stages import JudgeStages
from adaptermill.made import Stage, request
from adaptermill.message_stages import data_arguments
from adaptermill.provenance import PACKAGE, code_fingerprint, key
from adaptermill.resources import RuleResources
from adaptermill.sources import ExampleSource, ExampleTrajectoriesSource
from adaptermill.specs import DRAWN_BY, RESULTS, STORE, WORK, Specs
from adaptermill.unfinished import forgive_whole

# Stages whose subjects share one spec.
SHARED_SPECS = {
    "summarize_ingest": ("summarize_ingest", "all"),
    "combine_ingest": ("summarize_ingest", "all"),
    "card": ("tables", "all"),
}


class Pipeline:
    """Paths, specs and keys of one configuration, for the rules to ask.

    `checkpoints` is Snakemake's object of that name (None outside Snakemake: then only what lies on
    disk can be asked). `writes` is False in the processes that Snakemake starts for single jobs:
    those must find the specs as they are. `forced` says whether a rule is run by --forcerun.
    """

    # What of a published adapter is exported: what it takes to serve it and to say what it is.
    ADAPTER_FILES = (
        *("adapter_model.safetensors", "adapter_config.json", "README.md"),
        *("training.json", "train_log.jsonl"),
    )

    def __init__(
        self,
        settings: dict[str, Any],
        checkpoints: Any,
        repository: Path,
        *,
        writes: bool,
        forced: Callable[[str], bool] = lambda rule: False,
    ) -> None:
        self.config: Config = load(settings)
        self.checkpoints = checkpoints
        self.forced = forced
        # Whether this is the process that Snakemake started for one job inside a SLURM job.
        self.in_slurm = not writes and "SLURM_JOB_ID" in os.environ
        self.repository = Path(repository)
        self.specs = Specs(self.config, self.repository)
        self.sources = self.specs.sources
        self.messages = self.specs.messages
        self.consensus = self.specs.consensus
        self.judges = JudgeStages(self.config)
        self._adapter_of_key: dict[str, str] = {}
        self._prepare_environment()
        # Where another Snakemake works, its jobs read these files now.
        if writes and not locked():
            forgive_whole()
            self.specs.write()
            self._request_outdated()

    def _prepare_environment(self) -> None:
        """What jobs inherit: this checkout's scripts and package, and the Python that runs here."""
        os.environ["SCRIPTS"] = str(self.repository / "scripts")
        _prepend("PYTHONPATH", self.repository)
        _prepend("PATH", Path(sys.executable).parent)
        # Threads that wait by spinning make a busy machine ten times slower.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

    def spec(self, stage: str, name: str) -> str:
        return self.specs.path(stage, name)

    # ---- records and requests ------------------------------------------------------------------

    def record(self, stage: str, subject: str) -> str:
        """Where a stage notes what it was made from."""
        return str(WORK / "made" / stage / subject)

    def requested(self, stage: str, subject: str) -> str:
        """The input of a rule that is written anew when it must run again."""
        return str(WORK / "requests" / stage / subject)

    def published_mark(self, name: str) -> str:
        """The file that notes which evaluation is published for `name` (or `base`)."""
        return str(WORK / "published" / f"{name}.key")

    def above(self, stage: str, subject: str) -> list[str]:
        """The small files that stand for the stages above one."""
        if stage == "scan":
            drawer = DRAWN_BY.get(type(self.sources[subject]))
            return [] if drawer is None else [self.record(drawer, subject)]
        if stage == "summarize_ingest":
            return [self.record("scan", subject)]
        if stage in ("combine_ingest", "split"):
            return [self.record("summarize_ingest", name) for name in self.sources]
        if stage == "merge_measures":
            scans = [self.record("scan", name) for name in self.sources]
            return ["results/base/base.json", *scans]
        if stage == "view":
            return ["results/base/base.json", *self.messages.source_summaries(subject)]
        tables = [self.digest("rows"), self.digest("measures")]
        if stage == "heldout":
            return tables
        if stage == "judge":
            # Recorded rewards and gold answers are in the rows, and not in their index.
            records = [self.record("summarize_ingest", name) for name in self.sources]
            asks_base = self.config.judges[subject].kind == "gold_likelihood"
            return [*tables, *records, *(["results/base/base.json"] if asks_base else [])]
        if stage == "fitset":
            messages = self._above_messages(subject) if self.messages.makes(subject) else []
            return [*tables, *messages, *self.judges.digests(subject)]
        if stage in ("tables", "card"):
            names = self.config.evaluated if stage == "tables" else [subject]
            return [self.published_mark(name) for name in ["base", *names]]
        if stage == "arms":
            return [self.published_mark(name) for name in ["base", *self.consensus.adapters]]
        if stage == "report":
            arms = ["arms"] if self.consensus.adapters else []
            return [self.record(stage, "all") for stage in ("tables", *arms)]
        return []

    def _above_messages(self, name: str) -> list[str]:
        """What decides a fit set of messages beside the row index, which has no rewards."""
        viewed = [self.record("view", name)] if self.messages.has_view(name) else []
        return [*self.messages.source_summaries(name), *viewed]

    def fitset_above(self, name: str) -> list[str]:
        """What stands above a fit set; behind the checkpoints that write it."""
        self.digests()
        judge = self.config.recipes[name].judge
        if judge is not None:
            self._finished("judge", judge, judge=judge)
        return self.above("fitset", name)

    def judge_above(self, name: str) -> list[str]:
        """What stands above a judge; behind the checkpoints that write it."""
        self.judges.require(name)
        self.digests()
        return self.above("judge", name)

    def digest(self, table: str) -> str:
        """The file that holds the hash of `rows` or `measures`, written when the hash changes.

        It is the input that fit sets look at: the tables are written anew with every episode, and
        mostly with rows that are no news to an adapter.
        """
        return str(WORK / "digests" / table)

    def digests(self) -> list[str]:
        """Both digests; behind the checkpoints that write them and those above these."""
        for name in self.sources:
            self.manifest(name)
        self.base()
        self._finished("split", "all")
        self._finished("merge_measures", "all")
        return [self.digest("rows"), self.digest("measures")]

    def _finished(self, stage: str, subject: str, **wildcards: str) -> Any:
        """The outputs of a checkpoint once it is finished, by its record too.

        Snakemake takes a checkpoint for finished whose outputs lie there while what it reads stands
        behind another checkpoint; the job that asks must then be weighed again when it ends.
        """
        checkpoint = getattr(self.checkpoints, stage)
        outputs = checkpoint.get(**wildcards).output
        if not self.is_current(self._stages[stage, subject]):
            raise IncompleteCheckpointException(checkpoint.rule, checkpoint_target(outputs[0]))
        return outputs

    @functools.cached_property
    def _stages(self) -> dict[tuple[str, str], Stage]:
        return {(stage.stage, stage.subject): stage for stage in self.stages()}

    def stages(self) -> list[Stage]:
        """Every stage that keeps a record, those above first."""
        specs = self.specs.all()
        subjects = {
            **{stage: [n for s, n in specs if s == stage] for stage in DRAWN_BY.values()},
            "scan": self.sources,
            "summarize_ingest": self.sources,
            "combine_ingest": ["all"],
            "base": ["base"],
            "split": ["all"],
            "merge_measures": ["all"],
            "heldout": ["validation"],
            "view": [name for stage, name in specs if stage == "view"],
            "judge": self.judges.used,
            "fitset": self.config.recipes,
            "tables": ["all"],
            "arms": ["all"] if self.consensus.adapters else [],
            "report": ["all"],
            "card": self.config.evaluated,
        }
        kept = {
            "split": ("results/splits/rows.parquet", self.digest("rows")),
            "merge_measures": ("results/base/measures.parquet", self.digest("measures")),
        }
        found = []
        for stage, names in subjects.items():
            for subject in names:
                spec = SHARED_SPECS.get(stage, (stage, subject))
                found.append(
                    Stage(
                        stage=stage,
                        subject=subject,
                        record=Path(self.record(stage, subject)),
                        spec=self.spec(*spec),
                        spec_text=self.specs.text(specs[spec]),
                        above=tuple(self.above(stage, subject)),
                        keeps=self.judges.keeps(subject)
                        if stage == "judge"
                        else kept.get(stage, ()),
                    )
                )
        return found

    def is_current(self, stage: Stage) -> bool:
        """Whether the stage need not run, by its record and by what must lie there."""
        return stage.is_current() and not (stage.stage == "base" and self.base_is_missing())

    def base_is_missing(self) -> bool:
        """Whether the example base must be built, which a missing folder alone does not trigger."""
        return self.config.base.model == "example" and not Path(self.specs.base_folder()).is_dir()

    def _request_outdated(self) -> None:
        """Requests stages that are not current, and published products that have another key.

        File times alone would miss a setting changed and changed back, or a copied folder.
        """
        for stage in self._stages.values():
            again = not self.is_current(stage)
            request(self.requested(stage.stage, stage.subject), again=again)
            if again:
                stage.withdraw()
        for name in self.config.trained:
            published = _read_json(RESULTS / "adapters" / name / "training.json") or {}
            again = published.get("key") != self.key_on_disk(name)
            request(self.requested("publish_adapter", name), again=again)
        for name in ["base", *self.config.trained]:
            mark = Path(self.published_mark(name))
            published = mark.read_text(encoding="utf-8").strip() if mark.is_file() else None
            again = published != self.evaluation_key_on_disk(name)
            request(self.requested("publish_evaluation", name), again=again)

    # ---- sources and shards --------------------------------------------------------------------

    def manifest(self, name: str) -> str:
        """The source's manifest; behind its checkpoint."""
        return self._finished("scan", name, source=name).manifest

    def shards(self, name: str) -> list[str]:
        with open(self.manifest(name), encoding="utf-8") as handle:
            return [shard["name"] for shard in json.load(handle)["shards"]]

    def shard_files(self, name: str, kind: str) -> list[str]:
        """All of a source's `shards`, `images` or `quarantine` files."""
        return [f"results/ingest/{name}/{kind}/{shard}.parquet" for shard in self.shards(name)]

    def data_arguments(self) -> str:
        return data_arguments(self.sources)

    def training_data(self, wanted: str) -> str:
        """Where the rows lie of the adapter with that key: its own view of them comes first."""
        name = self.adapter_named_by(wanted)
        viewed = self.messages.has_view(name)
        own = f"--data {self.messages.view_folder(name)} " if viewed else ""
        return own + self.data_arguments()

    def drawn(self, name: str) -> list[str]:
        """What must be drawn before the source can be scanned: nothing, unless it is an example."""
        done = {
            ExampleSource: f"results/example/{name}.json",
            ExampleTrajectoriesSource: f"results/example/trajectories/{name}.json",
        }
        found = done.get(type(self.sources[name]))
        return [] if found is None else [found]

    def signatures(self, near: NearDuplicates) -> str:
        """Where the signatures of rows lie that are made with these settings."""
        made = {
            "ngram": near.ngram,
            "permutations": near.permutations,
            "code": code_fingerprint(PACKAGE / "signatures.py"),
            "datasketch": importlib.metadata.version("datasketch"),
        }
        return str(WORK / "signatures" / key(**made))

    def near_arguments(self, name: str) -> str:
        """What an adapter's near-duplicates are found by: the rows and their signatures."""
        near = self.config.recipes[name].dedup.near
        if near is None or self.messages.makes(name):
            return ""
        jobs = self.threads("fitset", 1)
        return f"{self.data_arguments()} --signatures {self.signatures(near)} --jobs {jobs}"

    # ---- base and measures ---------------------------------------------------------------------

    def example_base_folder(self) -> list[str]:
        return [self.specs.base_folder()] if self.config.base.model == "example" else []

    def example_base_arguments(self) -> str:
        example = self.config.base.example
        steps = "" if example.steps is None else f" --steps {example.steps}"
        return f"--seed {example.seed}{steps}"

    def base_arguments(self) -> str:
        base = self.config.base
        arguments = f"--model {shlex.quote(base.model)}"
        if base.revision is not None:
            arguments += f" --revision {shlex.quote(base.revision)}"
        if base.model == "example":
            arguments += f" --folder {self.specs.base_folder()}"
        return arguments

    def base(self) -> dict[str, Any]:
        """The resolved base; behind its checkpoint."""
        with open(self._finished("base", "base").base, encoding="utf-8") as handle:
            return json.load(handle)

    def measures(self) -> list[str]:
        """The measured shards of all sources under this base's processor and this code."""
        folder = self._measures_folder(self.base())
        return [
            str(folder / f"{name}__{shard}.parquet")
            for name in self.sources
            for shard in self.shards(name)
        ]

    def _measures_folder(self, base: dict[str, Any]) -> Path:
        return (
            STORE / "measures" / f"{base['processor_hash'][:12]}-{self.specs.code('measure')[:12]}"
        )

    # ---- adapters ------------------------------------------------------------------------------

    def fitset_hashes(self, name: str) -> dict[str, str]:
        self.fitset_above(name)
        composition = self._finished("fitset", name, adapter=name).composition
        with open(composition, encoding="utf-8") as handle:
            return json.load(handle)["hashes"]

    def _adapter_key(self, name: str, hashes: Any, base_identity: str) -> str | None:
        """The key by content; None while something it depends on is not known yet."""
        found = hashes(name)
        if found is None:
            return None
        parent = self.config.parent(name)
        settings = self.specs.train_settings(name)
        start = settings.pop("init_from")
        if parent is not None:
            above = self._adapter_key(parent, hashes, base_identity)
            if above is None:
                return None
            start = {"adapter": above}
        elif start is not None:
            start = {"folder": _folder_hash(start)}
        return key(
            base=base_identity,
            fitset=found["fitset"],
            plan=found["plan"],
            recipe=settings,
            init_from=start,
            code=self.specs.training_code(name),
            versions=self.specs.versions(),
        )

    def adapter_key(self, name: str) -> str:
        """The key that adapter `name` has now; behind every checkpoint above it.

        All checkpoints are asked before any answer is used: a job planned below an unfinished
        checkpoint is only weighed again when one of those it asked ends.
        """
        self.digests()
        identity = self.base()["identity"]
        found = self._adapter_key(name, self.fitset_hashes, identity)
        assert found is not None
        self._adapter_of_key[found] = name
        return found

    def adapter_named_by(self, wanted: str) -> str:
        """The adapter whose key is `wanted` (two adapters with one key are one training)."""
        if wanted not in self._adapter_of_key:
            for name in self.config.trained:
                if self.key_on_disk(name) == wanted:
                    self._adapter_of_key[wanted] = name
                    break
            else:
                raise UserError(
                    f"{STORE}/adapters/{wanted} belongs to no adapter of this configuration; "
                    "ask for results/adapters/<name> instead"
                )
        return self._adapter_of_key[wanted]

    def stored_adapter(self, name: str) -> str:
        if name in self.config.recipes and self.config.recipes[name].dry_run:
            raise UserError(
                f"adapters.{name} is a dry run: its fit set is results/fitsets/{name}/; set "
                "dry_run: false to train it"
            )
        return str(STORE / "adapters" / self.adapter_key(name))

    def _finished_adapter(self, name: str, output: Path) -> str:
        """The stored adapter as an input of `output`: its key says what it is, its time nothing.

        Unless training is forced: then what stands on an adapter is made again after it. And unless
        the output is missing: Snakemake passes it over when it trains again an adapter that lies
        there and only `ancient` leads on.
        """
        stored = self.stored_adapter(name)
        return ancient(stored) if output.exists() and not self.forced("train") else stored

    def train_inputs(self, wanted: str) -> dict[str, Any]:
        """What training the adapter of that key reads."""
        name = self.adapter_named_by(wanted)
        if self.adapter_key(name) != wanted:
            raise UserError(f"{wanted} is not the key that {name} has now")
        # Shards are not named: they are there when the fit set is. Only checkpoints and finished
        # work may be `ancient`: Snakemake 9 passes over reasons to run that lie below a job that
        # runs if nothing but ancient files leads there.
        inputs = {
            "fitset": ancient(f"results/fitsets/{name}/fitset.parquet"),
            "plan": ancient(f"results/fitsets/{name}/plan.parquet"),
            "base": ancient("results/base/base.json"),
        }
        if (parent := self.config.parent(name)) is not None:
            inputs["parent"] = self._finished_adapter(parent, STORE / "adapters" / wanted)
        return inputs

    def publish_marks(self, name: str) -> list[str]:
        """Files whose change means that another key may be wanted for `name`."""
        marks = ["results/base/base.json"]
        for above in self.config.lineage(name):
            marks += [f"results/fitsets/{above}/composition.json", self.spec("train", above)]
        return marks

    def train_spec(self, wanted: str) -> str:
        return self.spec("train", self.adapter_named_by(wanted))

    def start_argument(self, wanted: str) -> str:
        """`--parent FOLDER` for an adapter that is branched from another."""
        folder = self.parent_folder(self.adapter_named_by(wanted))
        return "" if folder is None else f"--parent {shlex.quote(folder)}"

    def launch(self, rule: str, threads: int, gres: str | None = None) -> str:
        """The command that runs a training or evaluation script on GPUs and cores of its own.

        `gres` is what of each node's GPUs a job of several nodes has been given.
        """
        processes = self.config.training.processes if rule == "train" else 1
        nodes = self._asked(rule).nodes if self.in_slurm else 1
        each = f"--nproc-per-node {processes // nodes}"
        share = f"--threads {max(1, threads * nodes // processes)}"
        if nodes > 1:
            given = f"--cores {threads}" + (f" --gres {gres}" if gres else "")
            return f'python "$SCRIPTS/with_nodes.py" --nodes {nodes} {given} {share} -- {each}'
        # A cluster has given the job its GPUs.
        gpus = 0 if self.in_slurm else processes
        command = f"torchrun --standalone {each}" if rule == "train" else "python"
        return f'python "$SCRIPTS/with_gpus.py" --gpus {gpus} {share} -- {command}'

    def train_script(self, wanted: str) -> str:
        """The script that trains the adapter of that key."""
        return self.specs.train_script(self.adapter_named_by(wanted))

    def running_arguments(self, wanted: str) -> str:
        """How training is carried out, which changes no result, and the plan if there is one."""
        name, training = self.adapter_named_by(wanted), self.config.training
        arguments = [f"--save-every {training.save_every} --save-minutes {training.save_minutes}"]
        if self.config.recipes[name].method == "anchored":
            arguments.append(f"--plan results/fitsets/{name}/plan.parquet")
            if training.keep_curve:
                arguments.append("--keep-curve")
            if training.token_budget is not None:
                arguments.append(f"--token-budget {training.token_budget}")
            if not training.share_prefix:
                arguments.append("--whole-rows")
        if training.keep_references:
            arguments.append(f"--references {STORE / 'references'}")
        arguments += [f"--tracking {name}" for name in training.tracking]
        return " ".join([*arguments, f"--tracks {RESULTS / 'tracking'}"])

    def parent_folder(self, name: str) -> str | None:
        """The finished adapter that training starts from: stored, or a folder outside."""
        if self.config.parent(name) is not None:
            return self.stored_adapter(self.config.parent(name))
        return self.config.recipes[name].init_from

    # ---- evaluations ---------------------------------------------------------------------------

    def heldout_digest(self) -> str:
        with open(self._finished("heldout", "validation").summary, encoding="utf-8") as handle:
            return json.load(handle)["digest"]

    def _evaluation_key(self, subject: str, digest: str) -> str:
        return key(
            subject=subject,
            heldout=digest,
            settings=self.specs.evaluate_settings(),
            code=self.specs.code("evaluate"),
            versions=self.specs.versions(),
        )

    def evaluation_key(self, name: str) -> str:
        """The key of the evaluation of `name` (or `base`); behind every checkpoint above it."""
        self.digests()
        subject = self.base()["identity"] if name == "base" else self.adapter_key(name)
        found = self._evaluation_key(subject, self.heldout_digest())
        self._adapter_of_key[found] = name
        return found

    def stored_evaluation(self, name: str) -> str:
        return str(self._evaluation_path(self.evaluation_key(name)))

    @staticmethod
    def _evaluation_path(found: str) -> Path:
        return STORE / "evaluations" / f"{found}.parquet"

    def evaluated_by(self, wanted: str) -> str:
        """The adapter (or `base`) whose evaluation has the key `wanted`."""
        if wanted not in self._adapter_of_key:
            for name in ["base", *self.config.trained]:
                if self.evaluation_key_on_disk(name) == wanted:
                    self._adapter_of_key[wanted] = name
                    break
            else:
                raise UserError(
                    f"{STORE}/evaluations/{wanted}.parquet belongs to no adapter of this "
                    "configuration; ask for results/evaluation/<name>.parquet instead"
                )
        return self._adapter_of_key[wanted]

    def evaluate_inputs(self, wanted: str) -> dict[str, Any]:
        name = self.evaluated_by(wanted)
        if self.evaluation_key(name) != wanted:
            raise UserError(f"{wanted} is not the key that the evaluation of {name} has now")
        inputs = {
            "heldout": ancient("results/splits/heldout.parquet"),
            "digest": ancient("results/splits/heldout.json"),
            "base": ancient("results/base/base.json"),
        }
        if name != "base":
            inputs["adapter"] = self._finished_adapter(name, self._evaluation_path(wanted))
        return inputs

    def subject_arguments(self, wanted: str) -> str:
        """What is evaluated under that key: `--adapter FOLDER`, or the base alone."""
        name = self.evaluated_by(wanted)
        folder = "" if name == "base" else f" --adapter {shlex.quote(self.stored_adapter(name))}"
        return f"--name {name} --key {wanted}{folder}"

    def evaluation_marks(self, name: str) -> list[str]:
        """Files whose change means that another evaluation may be wanted for `name`."""
        marks = ["results/splits/heldout.json", self.spec("evaluate", "all")]
        return marks + (["results/base/base.json"] if name == "base" else self.publish_marks(name))

    def evaluations(self) -> list[str]:
        """The published evaluations that the tables are made of, the base first."""
        return [f"results/evaluation/{name}.parquet" for name in ["base", *self.config.evaluated]]

    # ---- what is on disk -----------------------------------------------------------------------

    def base_on_disk(self) -> str | None:
        """The identity of the base that was resolved last, if any."""
        base = _read_json(RESULTS / "base" / "base.json")
        return base and base["identity"]

    def key_on_disk(self, name: str) -> str | None:
        """The key `name` has by the fit sets and base that lie there now, else None."""
        base = self.base_on_disk()

        def hashes(adapter: str) -> dict[str, str] | None:
            composition = _read_json(RESULTS / "fitsets" / adapter / "composition.json")
            return composition and composition["hashes"]

        return base and self._adapter_key(name, hashes, base)

    def shards_on_disk(self) -> list[tuple[str, str]] | None:
        """(source, shard) of all manifests on disk, else None."""
        manifests = {
            name: _read_json(WORK / "ingest" / name / "manifest.json") for name in self.sources
        }
        if None in manifests.values():
            return None
        return [
            (name, shard["name"])
            for name, manifest in manifests.items()
            for shard in manifest["shards"]
        ]

    def measures_on_disk(self) -> list[Path] | None:
        """The measured shards that the manifests and the base on disk ask for, else None."""
        base = _read_json(RESULTS / "base" / "base.json")
        shards = self.shards_on_disk()
        if base is None or shards is None:
            return None
        folder = self._measures_folder(base)
        return [folder / f"{name}__{shard}.parquet" for name, shard in shards]

    def evaluation_key_on_disk(self, name: str) -> str | None:
        base = _read_json(RESULTS / "base" / "base.json")
        heldout = _read_json(RESULTS / "splits" / "heldout.json")
        if not base or not heldout:
            return None
        subject = base["identity"] if name == "base" else self.key_on_disk(name)
        return subject and self._evaluation_key(subject, heldout["digest"])

    # ---- resources -----------------------------------------------------------------------------

    def resources(self, rule: str) -> dict[str, Any]:
        """What `resources.<rule>` of the configuration asks for, job by job."""
        named_by = {"train": self.adapter_named_by, "evaluate": self.evaluated_by}

        def adapter_of(wildcards: Any) -> str | None:
            if rule in named_by:
                return named_by[rule](wildcards.key)
            return getattr(wildcards, "adapter", None)

        return resources.for_snakemake(self._asked(rule), adapter_of)

    def threads(self, rule: str, default: int) -> int:
        return resources.threads(self._asked(rule), default)

    def _asked(self, rule: str) -> RuleResources:
        return self.config.resources.get(rule, RuleResources())


def _prepend(variable: str, folder: Path) -> None:
    before = os.environ.get(variable)
    os.environ[variable] = f"{folder}{os.pathsep}{before}" if before else str(folder)


def locked() -> bool:
    """Whether Snakemake holds its lock in this folder (or was killed while it did)."""
    return any(Path(".snakemake", "locks").glob("*.lock"))


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        return None


def _folder_hash(folder: str) -> str:
    """The content of an adapter folder outside the pipeline."""
    parts = {}
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        path = Path(folder, name)
        if not path.is_file():
            raise UserError(f"init_from: {folder} has no {name}; it must be a saved PEFT adapter")
        parts[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return key(**parts)
