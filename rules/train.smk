# One torchrun job per adapter, by the script of its method. What it depends on is in its key;
# everything that is an input here is `ancient`, since a file's time says nothing about its content.


rule train:
    input:
        unpack(lambda wildcards: pipeline.train_inputs(wildcards.key)),
    output:
        folder=directory("results/.store/adapters/{key}"),
    log:
        "results/logs/train/{key}.log",
    benchmark:
        "results/benchmarks/train/{key}.tsv"
    conda:
        "../envs/train.yaml"
    threads: pipeline.threads("train", 2)
    resources:
        **pipeline.resources("train"),
    # Functions of `resources` are left out when Snakemake compares parameters: none of these
    # changes a result.
    params:
        adapter=lambda wildcards, resources: pipeline.adapter_named_by(wildcards.key),
        spec=lambda wildcards, resources: pipeline.train_spec(wildcards.key),
        start=lambda wildcards, resources: pipeline.start_argument(wildcards.key),
        launch=lambda wildcards, threads, resources: pipeline.launch(
            "train", threads, resources.get("gres")
        ),
        data=lambda wildcards, resources: pipeline.training_data(wildcards.key),
        running=lambda wildcards, resources: pipeline.running_arguments(wildcards.key),
        script=lambda wildcards, resources: pipeline.train_script(wildcards.key),
        state="results/.work/training/{key}",
    message:
        "Training adapter {params.adapter}"
    shell:
        '{params.launch} "$SCRIPTS/{params.script}.py" --spec {params.spec} --key {wildcards.key}'
        " --base {input.base} --fitset {input.fitset} {params.data}"
        " {params.start} {params.running} --state {params.state} --output {output.folder}"
        " 2>&1 | tee {log}"


rule publish_adapter:
    input:
        stored=lambda wildcards: pipeline.stored_adapter(wildcards.adapter),
        marks=lambda wildcards: pipeline.publish_marks(wildcards.adapter),
        requested="results/.work/requests/publish_adapter/{adapter}",
    output:
        folder=directory("results/adapters/{adapter}"),
    log:
        "results/logs/publish_adapter/{adapter}.log",
    benchmark:
        "results/benchmarks/publish_adapter/{adapter}.tsv"
    conda:
        "../envs/data.yaml"
    message:
        "Publishing adapter {wildcards.adapter}"
    shell:
        'python "$SCRIPTS/publish.py" adapter --stored {input.stored} --name {wildcards.adapter}'
        " --output {output.folder} 2>&1 | tee {log}"
