# The arms of consensus training side by side; only included where there are any.


rule arms:
    input:
        spec="results/.work/specs/arms/all.json",
        requested="results/.work/requests/arms/all",
        above=pipeline.above("arms", "all"),
        evaluations=expand(
            "results/evaluation/{adapter}.parquet", adapter=pipeline.consensus.evaluated
        ),
        adapters=expand("results/adapters/{adapter}", adapter=pipeline.consensus.adapters),
    output:
        multiext("results/tables/arms", ".parquet", ".md"),
        csv=report(
            "results/tables/arms.csv",
            caption="../docs/captions/arms.rst",
            category="Tables",
            labels={"table": "arms"},
        ),
        made="results/.work/made/arms/all",
    log:
        "results/logs/arms/all.log",
    benchmark:
        "results/benchmarks/arms/all.tsv"
    conda:
        "../envs/report.yaml"
    resources:
        **pipeline.resources("arms"),
    params:
        folder=lambda wildcards, output: Path(output.csv).parent,
        data=lambda wildcards, resources: pipeline.consensus.data_arguments,
    message:
        "Comparing the arms of consensus training"
    shell:
        "made=$(sha256sum {input.spec} {input.above}); "
        'python "$SCRIPTS/arms.py" --spec {input.spec} --adapters {input.adapters}'
        " --evaluations {input.evaluations} {params.data}"
        " --output-folder {params.folder} 2>&1 | tee {log}"
        '; echo "$made" > {output.made}'
