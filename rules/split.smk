# What is held out, and how long every row is in the base's tokens.


checkpoint split:
    input:
        spec="results/.work/specs/split/all.json",
        requested="results/.work/requests/split/all",
        above=pipeline.above("split", "all"),
        summaries=expand("results/ingest/{source}/summary.json", source=pipeline.sources),
    output:
        made="results/.work/made/split/all",
        episodes="results/splits/episodes.parquet",
        rows="results/splits/rows.parquet",
        leaks="results/splits/leaks.json",
    log:
        "results/logs/split/all.log",
    benchmark:
        "results/benchmarks/split/all.tsv"
    conda:
        "../envs/data.yaml"
    threads: pipeline.threads("split", 2)
    resources:
        **pipeline.resources("split"),
    params:
        data=pipeline.data_arguments(),
        signatures=pipeline.signatures(pipeline.config.split.near_duplicates),
        # A failed job's outputs are deleted, and the leaks are what a person needs then.
        kept="results/logs/split/leaks.json",
        digest=pipeline.digest("rows"),
        moves="results/logs/split/moves.json",
        sides="results/.work/splits/sides.parquet",
    message:
        "Splitting the episodes and looking for leaks"
    shell:
        "made=$(sha256sum {input.spec} {input.above}); "
        'python "$SCRIPTS/split.py" --spec {input.spec} {params.data}'
        " --episodes {output.episodes} --rows {output.rows} --leaks {output.leaks}"
        " --report-copy {params.kept} --moves {params.moves} --sides {params.sides}"
        " --signatures {params.signatures} --jobs {threads} --digest {params.digest} 2>&1 | tee {log}"
        '; echo "$made" > {output.made}'


checkpoint base:
    input:
        spec="results/.work/specs/base/base.json",
        requested="results/.work/requests/base/base",
        example=pipeline.example_base_folder(),
    output:
        made="results/.work/made/base/base",
        base=update("results/base/base.json"),
    log:
        "results/logs/base/base.log",
    benchmark:
        "results/benchmarks/base/base.tsv"
    conda:
        "../envs/train.yaml"
    resources:
        **pipeline.resources("base"),
    params:
        # Hashes of the base's files, kept so that an unchanged base is not read again.
        cache="results/.work/base/hashes.json",
        model=pipeline.base_arguments(),
    message:
        "Resolving the base model"
    shell:
        "made=$(sha256sum {input.spec}); "
        'python "$SCRIPTS/resolve_base.py" {params.model} --hash-cache {params.cache}'
        " --output {output.base} 2>&1 | tee {log}"
        '; echo "$made" > {output.made}'


rule measure:
    input:
        rows=ancient("results/ingest/{source}/shards/{shard}.parquet"),
        images=ancient("results/ingest/{source}/images/{shard}.parquet"),
        base=ancient("results/base/base.json"),
    output:
        measures="results/.store/measures/{measured}/{source}__{shard}.parquet",
    log:
        "results/logs/measure/{measured}/{source}__{shard}.log",
    benchmark:
        "results/benchmarks/measure/{measured}/{source}__{shard}.tsv"
    conda:
        "../envs/train.yaml"
    resources:
        **pipeline.resources("measure"),
    message:
        "Measuring shard {wildcards.shard} of source {wildcards.source} in the base's tokens"
    shell:
        'python "$SCRIPTS/measure.py" --rows {input.rows} --images {input.images}'
        " --base {input.base} --output {output.measures} 2>&1 | tee {log}"


checkpoint merge_measures:
    input:
        spec="results/.work/specs/merge_measures/all.json",
        requested="results/.work/requests/merge_measures/all",
        above=pipeline.above("merge_measures", "all"),
        shards=lambda wildcards: pipeline.measures(),
    output:
        made="results/.work/made/merge_measures/all",
        measures="results/base/measures.parquet",
        summary="results/base/measures.json",
        quarantine="results/base/measures_quarantine.parquet",
    log:
        "results/logs/merge_measures/all.log",
    benchmark:
        "results/benchmarks/merge_measures/all.tsv"
    conda:
        "../envs/data.yaml"
    resources:
        **pipeline.resources("merge_measures"),
    params:
        digest=pipeline.digest("measures"),
    message:
        "Adding up the measured rows"
    shell:
        "made=$(sha256sum {input.spec} {input.above}); "
        'python "$SCRIPTS/merge_measures.py" --spec {input.spec} --inputs {input.shards}'
        " --output {output.measures} --summary {output.summary}"
        " --quarantine {output.quarantine} --digest {params.digest} 2>&1 | tee {log}"
        '; echo "$made" > {output.made}'


checkpoint heldout:
    input:
        spec="results/.work/specs/heldout/validation.json",
        requested="results/.work/requests/heldout/validation",
        above=lambda wildcards: pipeline.digests(),
    output:
        made="results/.work/made/heldout/validation",
        heldout=update("results/splits/heldout.parquet"),
        summary=update("results/splits/heldout.json"),
    log:
        "results/logs/heldout/validation.log",
    benchmark:
        "results/benchmarks/heldout/validation.tsv"
    conda:
        "../envs/data.yaml"
    resources:
        **pipeline.resources("heldout"),
    params:
        rows="results/splits/rows.parquet",
        measures="results/base/measures.parquet",
    message:
        "Listing the held-out rows"
    shell:
        "made=$(sha256sum {input.spec} {input.above}); "
        'python "$SCRIPTS/heldout.py" --spec {input.spec} --rows {params.rows}'
        " --measures {params.measures} --output {output.heldout}"
        " --summary {output.summary} 2>&1 | tee {log}"
        '; echo "$made" > {output.made}'
