# Every adapter and the base on the held-out rows of every family.


rule evaluate:
    input:
        unpack(lambda wildcards: pipeline.evaluate_inputs(wildcards.key)),
    output:
        rows="results/.store/evaluations/{key}.parquet",
    log:
        "results/logs/evaluate/{key}.log",
    benchmark:
        "results/benchmarks/evaluate/{key}.tsv"
    conda:
        "../envs/train.yaml"
    threads: pipeline.threads("evaluate", 2)
    resources:
        **pipeline.resources("evaluate"),
    params:
        launch=lambda wildcards, threads, resources: pipeline.launch("evaluate", threads),
        adapter=lambda wildcards, resources: pipeline.evaluated_by(wildcards.key),
        subject=lambda wildcards, resources: pipeline.subject_arguments(wildcards.key),
        data=lambda wildcards, resources: pipeline.data_arguments(),
        spec=lambda wildcards, resources: pipeline.spec("evaluate", "all"),
        state="results/.work/evaluation/{key}",
    message:
        "Evaluating {params.adapter} on the held-out rows"
    shell:
        '{params.launch} "$SCRIPTS/evaluate.py" --spec {params.spec}'
        " --base {input.base} {params.subject} --heldout {input.heldout} {params.data}"
        " --state {params.state} --output {output.rows} 2>&1 | tee {log}"


rule publish_evaluation:
    input:
        stored=lambda wildcards: pipeline.stored_evaluation(wildcards.adapter),
        marks=lambda wildcards: pipeline.evaluation_marks(wildcards.adapter),
        requested="results/.work/requests/publish_evaluation/{adapter}",
    output:
        rows="results/evaluation/{adapter}.parquet",
        key=pipeline.published_mark("{adapter}"),
    log:
        "results/logs/publish_evaluation/{adapter}.log",
    benchmark:
        "results/benchmarks/publish_evaluation/{adapter}.tsv"
    conda:
        "../envs/data.yaml"
    message:
        "Publishing the evaluation of {wildcards.adapter}"
    shell:
        'python "$SCRIPTS/publish.py" evaluation --stored {input.stored} --name {wildcards.adapter}'
        " --output {output.rows} --key-file {output.key} 2>&1 | tee {log}"
