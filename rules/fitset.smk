# The table of examples that one adapter is trained on, and the order in which it sees them.


# Messages of a multi-agent system, where an adapter fits them otherwise than they were collected.
rule view_messages:
    input:
        spec="results/.work/specs/view/{adapter}.json",
        requested="results/.work/requests/view/{adapter}",
        above=lambda wildcards: pipeline.above("view", wildcards.adapter),
        base="results/base/base.json",
    output:
        made="results/.work/made/view/{adapter}",
        summary="results/fitsets/{adapter}/messages/summary.json",
    log:
        "results/logs/view_messages/{adapter}.log",
    benchmark:
        "results/benchmarks/view_messages/{adapter}.tsv"
    conda:
        "../envs/train.yaml"
    resources:
        **pipeline.resources("view_messages"),
    params:
        data=lambda wildcards: pipeline.messages.source_arguments(wildcards.adapter),
        folder=lambda wildcards, output: Path(output.summary).parent,
    message:
        "Writing the messages as {wildcards.adapter} fits them"
    shell:
        "made=$(sha256sum {input.spec} {input.above}); "
        'python "$SCRIPTS/view_messages.py" --spec {input.spec} --base {input.base}'
        " {params.data} --output-folder {params.folder} 2>&1 | tee {log}"
        '; echo "$made" > {output.made}'


# `update`: training and evaluation read these files, and Snakemake would take one that it deleted
# before the job started for news.
checkpoint fitset:
    input:
        spec="results/.work/specs/fitset/{adapter}.json",
        requested="results/.work/requests/fitset/{adapter}",
        above=lambda wildcards: pipeline.fitset_above(wildcards.adapter),
    output:
        made="results/.work/made/fitset/{adapter}",
        fitset=update("results/fitsets/{adapter}/fitset.parquet"),
        dropped="results/fitsets/{adapter}/dropped.parquet",
        plan=update("results/fitsets/{adapter}/plan.parquet"),
        composition=update("results/fitsets/{adapter}/composition.json"),
        tables=expand("results/fitsets/{{adapter}}/composition.{kind}", kind=["csv", "md"]),
    log:
        "results/logs/fitset/{adapter}.log",
    benchmark:
        "results/benchmarks/fitset/{adapter}.tsv"
    conda:
        "../envs/data.yaml"
    threads: pipeline.threads("fitset", 1)
    resources:
        **pipeline.resources("fitset"),
    params:
        rows="results/splits/rows.parquet",
        measures="results/base/measures.parquet",
        near=lambda wildcards: pipeline.near_arguments(wildcards.adapter),
        folder=lambda wildcards, output: Path(output.fitset).parent,
        script=lambda wildcards: pipeline.messages.fitset_script(wildcards.adapter),
        data=lambda wildcards: pipeline.messages.fitset_arguments(wildcards.adapter),
        judged=lambda wildcards: pipeline.judges.fitset_arguments(wildcards.adapter),
    message:
        "Choosing what {wildcards.adapter} is trained on"
    shell:
        "made=$(sha256sum {input.spec} {input.above}); "
        'python "$SCRIPTS/{params.script}.py" --spec {input.spec} --rows {params.rows}'
        " --measures {params.measures} {params.data} {params.judged} {params.near}"
        " --output-folder {params.folder} 2>&1 | tee {log}"
        '; echo "$made" > {output.made}'
