"""Cluster jobs that outlive the Snakemake that submitted them.

While the SLURM plugin looks at its jobs it holds them in no list: a Ctrl-C in that moment cancels
none of them. All jobs of a run have one name, which Snakemake's log tells.
"""

from __future__ import annotations

import re
import subprocess

_RUN = re.compile(r"^SLURM run ID: (\S+)$", re.MULTILINE)


def cancel(said: str) -> None:
    """Cancels what is left of the runs that Snakemake's log names, if anything is."""
    for run in dict.fromkeys(_RUN.findall(said)):
        subprocess.run(["scancel", "--quiet", f"--name={run}"], check=False, timeout=60)
