# Shards and adapters on the way out: copies on another filesystem or in an object store, by one of
# Snakemake's storage plugins. Asked for by `snakemake exported`, and nothing here reads them again.

if pipeline.config.export.to is not None:

    storage exported:
        provider=pipeline.config.export.provider,

    def exported(path):
        return storage.exported(f"{pipeline.config.export.to.rstrip('/')}/{path}")

    localrules:
        exported,

    rule exported:
        input:
            [
                exported(f"adapters/{adapter}/{name}")
                for adapter in pipeline.config.recipes
                for name in pipeline.ADAPTER_FILES
            ],
            lambda wildcards: [
                exported(f"ingest/{source}/{kind}/{shard}.parquet")
                for source in pipeline.sources
                for shard in pipeline.shards(source)
                for kind in ("shards", "images")
            ],

    rule export_adapter:
        input:
            folder="results/adapters/{adapter}",
        output:
            [exported(f"adapters/{{adapter}}/{name}") for name in pipeline.ADAPTER_FILES],
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
            exported("ingest/{source}/{kind}/{shard}.parquet"),
        wildcard_constraints:
            kind="shards|images",
        log:
            "results/logs/export_shard/{source}/{kind}/{shard}.log",
        benchmark:
            "results/benchmarks/export_shard/{source}/{kind}/{shard}.tsv"
        conda:
            "../envs/data.yaml"
        resources:
            **pipeline.resources("export_shard"),
        message:
            "Exporting {wildcards.kind} {wildcards.shard} of source {wildcards.source}"
        shell:
            'cp {input} "{output}" 2>&1 | tee {log}'
