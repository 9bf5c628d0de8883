# What a judge says of the examples that fit sets ask it about. Its verdicts are kept in the store as
# they are made: a job that is started again asks only for what is missing.


checkpoint judge:
    input:
        spec="results/.work/specs/judge/{judge}.json",
        requested="results/.work/requests/judge/{judge}",
        above=lambda wildcards: pipeline.judge_above(wildcards.judge),
    output:
        made="results/.work/made/judge/{judge}",
        judged="results/judged/{judge}.parquet",
        summary="results/judged/{judge}.json",
    log:
        "results/logs/judge/{judge}.log",
    benchmark:
        "results/benchmarks/judge/{judge}.tsv"
    conda:
        "../envs/train.yaml"
    threads: pipeline.threads("judge", 2)
    resources:
        **pipeline.resources("judge"),
    # Functions of `resources` are left out when Snakemake compares parameters: none of these
    # changes a verdict.
    params:
        rows="results/splits/rows.parquet",
        measures="results/base/measures.parquet",
        base="results/base/base.json",
        digest=lambda wildcards: pipeline.judges.digest(wildcards.judge),
        data=lambda wildcards, resources: pipeline.data_arguments(),
        endpoint=lambda wildcards, resources: pipeline.judges.endpoint_arguments(wildcards.judge),
        store="results/.store/judged",
        # Hashes of a local model's files, kept so that an unchanged model is not read again.
        cache="results/.work/judges/{judge}",
    message:
        "Asking judge {wildcards.judge}"
    shell:
        "made=$(sha256sum {input.spec} {input.above}); "
        'python "$SCRIPTS/judge.py" --spec {input.spec} --rows {params.rows}'
        " --measures {params.measures} --base {params.base} {params.data} {params.endpoint}"
        " --store {params.store} --hash-cache {params.cache} --output {output.judged}"
        " --summary {output.summary} --digest {params.digest} 2>&1 | tee {log}"
        '; echo "$made" > {output.made}'
