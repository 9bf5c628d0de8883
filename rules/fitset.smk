# The table of examples that one adapter is trained on, and the order in which it sees them.


checkpoint fitset:
    input:
        spec="results/.work/specs/fitset/{adapter}.json",
        requested="results/.work/requests/fitset/{adapter}",
        above=lambda wildcards: pipeline.above("fitset", wildcards.adapter),
        rows="results/splits/rows.parquet",
        measures="results/base/measures.parquet",
    output:
        fitset="results/fitsets/{adapter}/fitset.parquet",
        dropped="results/fitsets/{adapter}/dropped.parquet",
        plan="results/fitsets/{adapter}/plan.parquet",
        composition="results/fitsets/{adapter}/composition.json",
        made="results/.work/made/fitset/{adapter}",
    log:
        "results/logs/fitset/{adapter}.log",
    conda:
        "../envs/data.yaml"
    resources:
        **pipeline.resources("fitset"),
    params:
        folder=lambda wildcards, output: Path(output.fitset).parent,
    message:
        "Choosing what {wildcards.adapter} is trained on"
    shell:
        "made=$(sha256sum {input.spec} {input.above}); "
        'python "$SCRIPTS/fitset.py" --spec {input.spec} --rows {input.rows}'
        " --measures {input.measures} --output-folder {params.folder} 2>&1 | tee {log}"
        '; echo "$made" > {output.made}'
