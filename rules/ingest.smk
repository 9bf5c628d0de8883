# Raw files -> Parquet shards. The scan finds the shards; each shard is a job of its own.


checkpoint scan:
    input:
        spec="results/.work/specs/scan/{source}.json",
        requested="results/.work/requests/scan/{source}",
        drawn=lambda wildcards: pipeline.drawn(wildcards.source),
        above=lambda wildcards: pipeline.above("scan", wildcards.source),
    output:
        made="results/.work/made/scan/{source}",
        manifest="results/.work/ingest/{source}/manifest.json",
        units="results/.work/ingest/{source}/units.jsonl",
    log:
        "results/logs/scan/{source}.log",
    benchmark:
        "results/benchmarks/scan/{source}.tsv"
    conda:
        "../envs/data.yaml"
    threads: pipeline.threads("scan", 4)
    resources:
        **pipeline.resources("scan"),
    params:
        cache=lambda wildcards: pipeline.specs.scan_cache(wildcards.source),
    message:
        "Looking for new and changed episodes of source {wildcards.source}"
    shell:
        "made=$(sha256sum {input.spec} {input.above}); "
        'python "$SCRIPTS/scan.py" --spec {input.spec} --cache {params.cache}'
        " --output {output.manifest} --units {output.units} --threads {threads} 2>&1 | tee {log}"
        '; echo "$made" > {output.made}'


rule ingest:
    input:
        spec=ancient("results/.work/specs/ingest/{source}.json"),
        units=ancient("results/.work/ingest/{source}/units.jsonl"),
    output:
        rows="results/ingest/{source}/shards/{shard}.parquet",
        images="results/ingest/{source}/images/{shard}.parquet",
        quarantine="results/ingest/{source}/quarantine/{shard}.parquet",
    log:
        "results/logs/ingest/{source}/{shard}.log",
    benchmark:
        "results/benchmarks/ingest/{source}/{shard}.tsv"
    conda:
        "../envs/data.yaml"
    resources:
        **pipeline.resources("ingest"),
    message:
        "Ingesting shard {wildcards.shard} of source {wildcards.source}"
    shell:
        'python "$SCRIPTS/ingest.py" --spec {input.spec} --units {input.units}'
        " --shard {wildcards.shard} --rows {output.rows} --images {output.images}"
        " --quarantine {output.quarantine} 2>&1 | tee {log}"


rule summarize_ingest:
    input:
        spec="results/.work/specs/summarize_ingest/all.json",
        requested="results/.work/requests/summarize_ingest/{source}",
        above=lambda wildcards: pipeline.above("summarize_ingest", wildcards.source),
        manifest="results/.work/ingest/{source}/manifest.json",
        units="results/.work/ingest/{source}/units.jsonl",
        rows=lambda wildcards: pipeline.shard_files(wildcards.source, "shards"),
        images=lambda wildcards: pipeline.shard_files(wildcards.source, "images"),
        quarantine=lambda wildcards: pipeline.shard_files(wildcards.source, "quarantine"),
    output:
        summary="results/ingest/{source}/summary.json",
        quarantine="results/ingest/{source}/quarantine.parquet",
        made="results/.work/made/summarize_ingest/{source}",
    log:
        "results/logs/summarize_ingest/{source}.log",
    benchmark:
        "results/benchmarks/summarize_ingest/{source}.tsv"
    conda:
        "../envs/data.yaml"
    resources:
        **pipeline.resources("summarize_ingest"),
    params:
        folder=lambda wildcards, output: Path(output.summary).parent,
    message:
        "Adding up what came in from source {wildcards.source}"
    shell:
        "made=$(sha256sum {input.spec} {input.above}); "
        'python "$SCRIPTS/summarize_ingest.py" --spec {input.spec} --manifest {input.manifest}'
        " --units {input.units} --folder {params.folder} 2>&1 | tee {log}"
        '; echo "$made" > {output.made}'


rule combine_ingest:
    input:
        spec="results/.work/specs/summarize_ingest/all.json",
        requested="results/.work/requests/combine_ingest/all",
        above=pipeline.above("combine_ingest", "all"),
        summaries=expand("results/ingest/{source}/summary.json", source=pipeline.sources),
    output:
        summary="results/ingest/summary.json",
        made="results/.work/made/combine_ingest/all",
    log:
        "results/logs/combine_ingest/all.log",
    benchmark:
        "results/benchmarks/combine_ingest/all.tsv"
    conda:
        "../envs/data.yaml"
    resources:
        **pipeline.resources("combine_ingest"),
    message:
        "Adding up what came in from all sources"
    shell:
        "made=$(sha256sum {input.spec} {input.above}); "
        'python "$SCRIPTS/summarize_ingest.py" --combine {input.summaries}'
        " --output {output.summary} 2>&1 | tee {log}"
        '; echo "$made" > {output.made}'
