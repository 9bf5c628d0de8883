"""A run that failed ends with the last lines of each failed job's logs, and how to see the rest."""

from adaptermill import failures

BLOCK = """\
Error in rule {rule}:
    message: {message}
    jobid: {job}
    output: results/x
    log: {logs} (check log file(s) for error details)
    shell:
        true
"""


def said(tmp_path, **changes) -> str:
    log = tmp_path / "train.log"
    log.write_text("".join(f"line {number}\n" for number in range(100)))
    values = {"rule": "train", "job": 7, "message": "None", "logs": str(log), **changes}
    return "[Tue Dec  1]\n" + BLOCK.format(**values) + "Exiting because a job execution failed.\n"


def test_the_last_lines_are_shown_with_the_command_to_look_further(tmp_path):
    shown = failures.ends(said(tmp_path))
    assert "train (job 7) failed." in shown
    assert "line 99" in shown and "line 80" in shown and "line 79\n" not in shown
    assert f"less +G {tmp_path}/train.log" in shown


def test_what_slurm_says_is_told_and_its_log_shown_too(tmp_path):
    (tmp_path / "slurm.log").write_text("slurmstepd: oom\n")
    both = f"{tmp_path}/train.log, {tmp_path}/slurm.log"
    message = "SLURM-job '5' failed, SLURM status is: 'OUT_OF_MEMORY'. More."
    shown = failures.ends(said(tmp_path, message=message, logs=both))
    assert "failed; SLURM job 5 is OUT_OF_MEMORY." in shown and "slurmstepd: oom" in shown


def test_a_job_that_was_well_at_a_further_attempt_is_left_out(tmp_path):
    text = said(tmp_path) + "Finished jobid: 7 (Rule: train)\n"
    assert failures.ends(text) == ""


def test_a_log_that_was_never_written_is_said_to_be_missing(tmp_path):
    assert "was not written" in failures.ends(said(tmp_path, logs=str(tmp_path / "none.log")))
