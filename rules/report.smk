# What people read: tables and cards.


rule tables:
    input:
        spec="results/.work/specs/tables/all.json",
        requested="results/.work/requests/tables/all",
        above=pipeline.above("tables", "all"),
        evaluations=pipeline.evaluations(),
        adapters=expand("results/adapters/{adapter}", adapter=pipeline.config.recipes),
        compositions=expand(
            "results/fitsets/{adapter}/composition.json", adapter=pipeline.config.recipes
        ),
        episodes="results/splits/episodes.parquet",
        leaks="results/splits/leaks.json",
        ingest="results/ingest/summary.json",
    output:
        expand(
            "results/tables/{table}.{kind}",
            table=["evaluation", "comparison", "fitsets", "training", "splits", "quarantine"],
            kind=["csv", "parquet", "md"],
        ),
        made="results/.work/made/tables/all",
    log:
        "results/logs/tables/all.log",
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
        base="results/evaluation/base.parquet",
        evaluation="results/evaluation/{adapter}.parquet",
        composition="results/fitsets/{adapter}/composition.json",
    output:
        card="results/cards/{adapter}.md",
        made="results/.work/made/card/{adapter}",
    log:
        "results/logs/card/{adapter}.log",
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
