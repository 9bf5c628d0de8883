"""Time and memory of the rules, as the report sums them up from Snakemake's benchmark files."""

from adaptermill.report.costs import by_rule, duration

HEADER = "s\th:m:s\tmax_rss\tmax_vms\tmax_uss\tmax_pss\tio_in\tio_out\tmean_load\tcpu_time\n"


def test_jobs_of_a_rule_are_added_up_and_the_longest_rule_comes_first(tmp_path):
    for name, seconds, memory in (("train/a", 600, "2000.5"), ("train/b", 1200, "1000")):
        path = tmp_path / f"{name}.tsv"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{HEADER}{seconds}\t0:00\t{memory}\t1\t1\t1\t0\t0\t90\t{seconds / 2}\n")
    short = tmp_path / "ingest" / "main" / "s-0.tsv"
    short.parent.mkdir(parents=True)
    short.write_text(f"{HEADER}0.2\t0:00\tNA\tNA\tNA\tNA\tNA\tNA\tNA\tNA\n")
    train, ingest = by_rule(tmp_path)
    assert (train.rule, train.jobs, train.total, train.longest) == ("train", 2, "30 min", "20 min")
    assert (train.cpu, train.peak) == ("15 min", "2.0 GB")
    assert (ingest.rule, ingest.jobs, ingest.total, ingest.peak) == ("ingest", 1, "0.2 s", "–")


def test_without_benchmarks_there_is_nothing_to_show(tmp_path):
    assert by_rule(tmp_path / "none") == []


def test_durations_read_well():
    assert [duration(each) for each in (8.123, 90, 9000)] == ["8.1 s", "2 min", "2.5 h"]
