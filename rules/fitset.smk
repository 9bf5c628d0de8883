# The table of examples that one adapter is trained on, and the order in which it sees them.


checkpoint fitset:
    input:
        spec="results/.work/specs/fitset/{adapter}.json",
        requested="results/.work/requests/fitset/{adapter}",
        above=lambda wildcards: pipeline.digests(),
    output:
        made="results/.work/made/fitset/{adapter}",
        fitset="results/fitsets/{adapter}/fitset.parquet",
        dropped="results/fitsets/{adapter}/dropped.parquet",
        plan="results/fitsets/{adapter}/plan.parquet",
        composition="results/fitsets/{adapter}/composition.json",
    log:
        "results/logs/fitset/{adapter}.log",
    conda:
        "../envs/data.yaml"
    resources:
        **pipeline.resources("fitset"),
    params:
        rows="results/splits/rows.parquet",
        measures="results/base/measures.parquet",
        folder=lambda wildcards, output: Path(output.fitset).parent,
    message:
        "Choosing what {wildcards.adapter} is trained on"
    shell:
        "made=$(sha256sum {input.spec} {input.above}); "
        'python "$SCRIPTS/fitset.py" --spec {input.spec} --rows {params.rows}'
        " --measures {params.measures} --output-folder {params.folder} 2>&1 | tee {log}"
        '; echo "$made" > {output.made}'
