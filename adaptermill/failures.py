"""What Snakemake says at the end of a run that failed: the last lines of each failed job's logs.

The whole log of a training job would hide every other message; a path alone would send people away.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

LAST_LINES = 20
_BLOCK = re.compile(r"^Error in rule (\w+):\n((?:    .*\n)+)", re.MULTILINE)
_JOB = re.compile(r"^    jobid: (\d+)$", re.MULTILINE)
_LOG = re.compile(r"^    log: (.+?) \(check log", re.MULTILINE)
_CLUSTER = re.compile(
    r"^    message: SLURM-job '(\d+)' failed, SLURM status is: '(\w+)'", re.MULTILINE
)
_FINISHED = re.compile(r"^Finished jobid: (\d+) ", re.MULTILINE)


def read(logs: str | Sequence[str] | None) -> str:
    """What Snakemake said, from the log files that it names to `onerror`."""
    paths = [logs] if isinstance(logs, str) else logs or []
    there = [Path(path) for path in paths if Path(path).is_file()]
    return "".join(path.read_text(encoding="utf-8", errors="replace") for path in there)


def failed_logs(said: str) -> dict[str, list[str]]:
    """How a job failed -> its log files, for the jobs that failed in what Snakemake said.

    One that failed and was well at a further attempt is none of them.
    """
    found: dict[str, list[str]] = {}
    finished = set(_FINISHED.findall(said))
    for rule, block in _BLOCK.findall(said):
        job, logs = _JOB.search(block), _LOG.search(block)
        if job and logs and job[1] not in finished:
            cluster = _CLUSTER.search(block)
            how = f"; SLURM job {cluster[1]} is {cluster[2]}" if cluster else ""
            found[f"{rule} (job {job[1]}) failed{how}"] = logs[1].split(", ")
    return found


def ends(said: str) -> str:
    """The text to show after a run that failed; empty where no job's log is known."""
    parts = []
    for how, logs in failed_logs(said).items():
        parts.append(f"\n{how}.")
        for log in map(Path, logs):
            parts.append(_end(log))
    return "\n".join(parts)


def _end(log: Path) -> str:
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return f"  {log}: was not written"
    if not lines:
        return f"  {log}: is empty"
    shown = "\n".join(f"    {line}" for line in lines[-LAST_LINES:])
    more = f"\n  all of it: less +G {shlex.quote(str(log))}"
    return f"  the end of {log}:\n{shown}{more}"
