# Adaptermill: what agents did -> LoRA adapters, held-out tables and a report.
#
#     snakemake --cores all results/adapters/drag
#
# How paths are made (results/ lies in the working directory):
#
#     ingest/<source>/{shards,images,quarantine}/<shard>.parquet    a shard's name holds its key
#     ingest/<source>/summary.json, ingest/summary.json             counts of what came in
#     base/base.json, base/measures.parquet                         the base, and rows in its tokens
#     splits/{episodes,rows,heldout}.parquet, splits/leaks.json     what is held out
#     judged/<judge>.parquet                                        what a judge says of examples
#     fitsets/<adapter>/{fitset,dropped,plan}.parquet               what an adapter is trained on
#     adapters/<adapter>/                                           the adapter, published
#     evaluation/<adapter>.parquet                                  its held-out rows, published
#     tables/*.{csv,parquet,md}, cards/<adapter>.md                 what people read
#     report.html, figures/*.svg                                    the same to look at
#     .store/<kind>/<key>                                           finished work, by content
#     .work/specs/<stage>/<name>.json                               settings and code, as inputs
#
# `adaptermill/pipeline.py` says how specs and keys keep a build true.
import sys
from pathlib import Path

from snakemake.settings.types import ExecMode

# The package beside this file is the one that runs, whatever is installed.
sys.path.insert(0, str(workflow.basedir))
from adaptermill import failures, left_over
from adaptermill.pipeline import Pipeline
from adaptermill.relay import SHELL_PREFIX, relay_sigterm


report: "docs/captions/workflow.rst"


if Path("config.yaml").exists():

    configfile: "config.yaml"


pipeline = Pipeline(
    config,
    checkpoints,
    workflow.basedir,
    writes=workflow.exec_mode == ExecMode.DEFAULT,
    forced=lambda rule: (workflow.dag_settings.forceall or rule in workflow.dag_settings.forcerun),
)


if pipeline.in_slurm:
    relay_sigterm()
    shell.prefix(SHELL_PREFIX)


wildcard_constraints:
    source=r"[a-z0-9_]+",
    shard=r"s[01]*-[0-9a-f]+",
    adapter=r"[a-z0-9_]+",
    judge=r"[a-z0-9_]+",
    key=r"[0-9a-f]+",


localrules:
    all,
    publish_adapter,
    publish_evaluation,


rule all:
    input:
        expand("results/adapters/{adapter}", adapter=pipeline.config.trained),
        # Of dry runs these are all there is.
        expand("results/fitsets/{adapter}/composition.json", adapter=pipeline.config.recipes),
        expand("results/cards/{adapter}.md", adapter=pipeline.config.evaluated),
        "results/tables/evaluation.csv",
        "results/report.html",


include: "rules/example.smk"
include: "rules/ingest.smk"
include: "rules/split.smk"
include: "rules/judge.smk"
include: "rules/fitset.smk"
include: "rules/train.smk"
include: "rules/evaluate.smk"
include: "rules/report.smk"
include: "rules/export.smk"


if pipeline.consensus.adapters:

    include: "rules/consensus.smk"


onerror:
    said = failures.read(log)
    left_over.cancel(said)
    print(failures.ends(said), file=sys.stderr)
