# The shipped example: episodes that the pipeline draws, and a tiny base that it trains.


rule example_source:
    input:
        spec="results/.work/specs/example_source/{source}.json",
        requested="results/.work/requests/example_source/{source}",
    output:
        done="results/example/{source}.json",
        made="results/.work/made/example_source/{source}",
    log:
        "results/logs/example_source/{source}.log",
    benchmark:
        "results/benchmarks/example_source/{source}.tsv"
    conda:
        "../envs/data.yaml"
    threads: pipeline.threads("example_source", 2)
    resources:
        **pipeline.resources("example_source"),
    params:
        folder=lambda wildcards: pipeline.specs.raw_paths(wildcards.source)[0],
    message:
        "Drawing the example episodes of source {wildcards.source}"
    shell:
        "made=$(sha256sum {input.spec}); "
        'python "$SCRIPTS/example_source.py" --spec {input.spec} --output {params.folder}'
        " --jobs {threads} --summary {output.done} 2>&1 | tee {log}"
        '; echo "$made" > {output.made}'


rule example_trajectories:
    input:
        spec="results/.work/specs/example_trajectories/{source}.json",
        requested="results/.work/requests/example_trajectories/{source}",
    output:
        made="results/.work/made/example_trajectories/{source}",
        done="results/example/trajectories/{source}.json",
    log:
        "results/logs/example_trajectories/{source}.log",
    benchmark:
        "results/benchmarks/example_trajectories/{source}.tsv"
    conda:
        "../envs/data.yaml"
    resources:
        **pipeline.resources("example_trajectories"),
    params:
        folder=lambda wildcards: pipeline.specs.raw_paths(wildcards.source)[0],
    message:
        "Drawing the example rollouts of source {wildcards.source}"
    shell:
        "made=$(sha256sum {input.spec}); "
        'python "$SCRIPTS/example_trajectories.py" --spec {input.spec} --output {params.folder}'
        " --summary {output.done} 2>&1 | tee {log}"
        '; echo "$made" > {output.made}'


rule example_base:
    output:
        folder=directory("results/.store/bases/{key}"),
    log:
        "results/logs/example_base/{key}.log",
    benchmark:
        "results/benchmarks/example_base/{key}.tsv"
    conda:
        "../envs/train.yaml"
    threads: pipeline.threads("example_base", 2)
    resources:
        **pipeline.resources("example_base"),
    params:
        settings=pipeline.example_base_arguments(),
    message:
        "Training the tiny example base (a minute or two)"
    shell:
        'python "$SCRIPTS/example_base.py" {params.settings} --output {output.folder} 2>&1 | tee {log}'
