# The table of examples that one adapter is trained on, and the order in which it sees them.


# `update`: training and evaluation read these files, and Snakemake would take one that it deleted
# before the job started for news.
checkpoint fitset:
    input:
        spec="results/.work/specs/fitset/{adapter}.json",
        requested="results/.work/requests/fitset/{adapter}",
        above=lambda wildcards: pipeline.digests(),
    output:
        made="results/.work/made/fitset/{adapter}",
        fitset=update("results/fitsets/{adapter}/fitset.parquet"),
        dropped="results/fitsets/{adapter}/dropped.parquet",
        plan=update("results/fitsets/{adapter}/plan.parquet"),
        composition=update("results/fitsets/{adapter}/composition.json"),
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
