# What people read: tables, cards and the report. What `report(...)` marks is in Snakemake's own
# report too (`snakemake --report report.zip`), with the captions of docs/captions/.

TABLES = [
    "evaluation",
    "comparison",
    "summary",
    "replicates",
    "epochs",
    "fitsets",
    "training",
    "splits",
    "quarantine",
]
# The test side is shown beside the others and decides nothing.
if "test" in pipeline.config.split.heldout_sides:
    TABLES += ["evaluation_test", "comparison_test", "summary_test"]
FIGURES = ["heatmap", "differences", "training", "curve", "fitsets", "splits"]
FIGURES += ["consensus"] if pipeline.consensus.adapters else []


rule tables:
    input:
        spec="results/.work/specs/tables/all.json",
        requested="results/.work/requests/tables/all",
        above=pipeline.above("tables", "all"),
        evaluations=pipeline.evaluations(),
        adapters=expand("results/adapters/{adapter}", adapter=pipeline.config.trained),
        compositions=expand(
            "results/fitsets/{adapter}/composition.json", adapter=pipeline.config.recipes
        ),
        episodes="results/splits/episodes.parquet",
        leaks="results/splits/leaks.json",
        ingest="results/ingest/summary.json",
    output:
        expand("results/tables/{table}.{kind}", table=TABLES, kind=["parquet", "md"]),
        csv=[
            report(
                f"results/tables/{table}.csv",
                caption=f"../docs/captions/{table.removesuffix('_test')}.rst",
                category="Tables",
                labels={"table": table},
            )
            for table in TABLES
        ],
        made="results/.work/made/tables/all",
    log:
        "results/logs/tables/all.log",
    benchmark:
        "results/benchmarks/tables/all.tsv"
    conda:
        "../envs/report.yaml"
    resources:
        **pipeline.resources("tables"),
    params:
        folder=lambda wildcards, output: Path(output[0]).parent,
    message:
        "Making the tables"
    shell:
        "made=$(sha256sum {input.spec} {input.above}); "
        'python "$SCRIPTS/tables.py" --spec {input.spec} --evaluations {input.evaluations}'
        " --fitsets {input.compositions} --training {input.adapters}"
        " --episodes {input.episodes} --leaks {input.leaks} --ingest-summary {input.ingest}"
        " --output-folder {params.folder} 2>&1 | tee {log}"
        '; echo "$made" > {output.made}'


rule card:
    input:
        spec="results/.work/specs/tables/all.json",
        requested="results/.work/requests/card/{adapter}",
        above=lambda wildcards: pipeline.above("card", wildcards.adapter),
        adapter="results/adapters/{adapter}",
        # Not read: Snakemake weighs a job anew that waits for checkpoints, and only such a one.
        stored=lambda wildcards: ancient(pipeline.stored_evaluation(wildcards.adapter)),
        base="results/evaluation/base.parquet",
        evaluation="results/evaluation/{adapter}.parquet",
        composition="results/fitsets/{adapter}/composition.json",
    output:
        card="results/cards/{adapter}.md",
        made="results/.work/made/card/{adapter}",
    log:
        "results/logs/card/{adapter}.log",
    benchmark:
        "results/benchmarks/card/{adapter}.tsv"
    conda:
        "../envs/report.yaml"
    resources:
        **pipeline.resources("card"),
    message:
        "Writing the card of {wildcards.adapter}"
    shell:
        "made=$(sha256sum {input.spec} {input.above}); "
        'python "$SCRIPTS/card.py" --spec {input.spec} --adapter {input.adapter}'
        " --evaluations {input.base} {input.evaluation}"
        " --composition {input.composition} --output {output.card} 2>&1 | tee {log}"
        '; echo "$made" > {output.made}'


rule report:
    input:
        spec="results/.work/specs/report/all.json",
        requested="results/.work/requests/report/all",
        above=pipeline.above("report", "all"),
        tables=expand(
            "results/tables/{table}.parquet",
            table=[*TABLES, *(["arms"] if pipeline.consensus.adapters else [])],
        ),
        evaluations=pipeline.evaluations(),
        adapters=expand("results/adapters/{adapter}", adapter=pipeline.config.trained),
        summaries=expand("results/ingest/{source}/summary.json", source=pipeline.sources),
        base="results/base/base.json",
    output:
        page=report(
            "results/report.html",
            caption="../docs/captions/page.rst",
            category="Report",
        ),
        figures=[
            report(
                f"results/figures/{figure}.svg",
                caption=f"../docs/captions/figure_{figure}.rst",
                category="Figures",
                labels={"figure": figure},
            )
            for figure in FIGURES
        ],
        made="results/.work/made/report/all",
    log:
        "results/logs/report/all.log",
    benchmark:
        "results/benchmarks/report/all.tsv"
    conda:
        "../envs/report.yaml"
    resources:
        **pipeline.resources("report"),
    params:
        tables=lambda wildcards, input: Path(input.tables[0]).parent,
        figures=lambda wildcards, output: Path(output.figures[0]).parent,
        data=lambda wildcards, resources: pipeline.data_arguments(),
        # What earlier jobs took: shown as it is found, and never a reason to make the report again.
        benchmarks="results/benchmarks",
    message:
        "Making the report"
    shell:
        "made=$(sha256sum {input.spec} {input.above}); "
        'python "$SCRIPTS/report.py" --spec {input.spec} --tables {params.tables}'
        " --evaluations {input.evaluations} --adapters {input.adapters} {params.data}"
        " --base {input.base} --benchmarks {params.benchmarks}"
        " --output {output.page} --figures {params.figures} 2>&1 | tee {log}"
        '; echo "$made" > {output.made}'
