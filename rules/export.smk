# Shards and adapters on the way out: copies on another filesystem or in an object store, by one of
# Snakemake's storage plugins. Asked for by `snakemake exported`, and nothing here reads them again.

if pipeline.config.export.to is not None:

    storage exported:
        provider=pipeline.config.export.provider,

    address = pipeline.config.export.address

    localrules:
        exported,

    rule exported:
        input:
            [
                storage.exported(address(f"adapters/{adapter}/{name}"))
                for adapter in pipeline.config.recipes
                for name in pipeline.ADAPTER_FILES
            ],
            lambda wildcards: [
                storage.exported(address(f"ingest/{source}/{kind}/{shard}.parquet"))
                for source in pipeline.sources
                for shard in pipeline.shards(source)
                for kind in ("shards", "images")
            ],

    rule export_adapter:
        input:
            folder="results/adapters/{adapter}",
        output:
            [
                storage.exported(address(f"adapters/{{adapter}}/{name}"))
                for name in pipeline.ADAPTER_FILES
            ],
        log:
            "results/logs/export_adapter/{adapter}.log",
        benchmark:
            "results/benchmarks/export_adapter/{adapter}.tsv"
        conda:
            "../envs/data.yaml"
        resources:
            **pipeline.resources("export_adapter"),
        message:
            "Exporting adapter {wildcards.adapter}"
        shell:
            "for file in {output}; do"
            ' cp "{input.folder}/$(basename "$file")" "$file"; done 2>&1 | tee {log}'

    rule export_shard:
        input:
            "results/ingest/{source}/{kind}/{shard}.parquet",
        output:
            storage.exported(address("ingest/{source}/{kind}/{shard}.parquet")),
        log:
            "results/logs/export_shard/{source}/{kind}/{shard}.log",
        benchmark:
            "results/benchmarks/export_shard/{source}/{kind}/{shard}.tsv"
        wildcard_constraints:
            kind="shards|images",
        conda:
            "../envs/data.yaml"
        resources:
            **pipeline.resources("export_shard"),
        message:
            "Exporting {wildcards.kind} {wildcards.shard} of source {wildcards.source}"
        shell:
            'cp {input} "{output}" 2>&1 | tee {log}'
