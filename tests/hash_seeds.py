"""What a program says in processes whose hashes of strings are seeded otherwise."""

import os
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]


def said_with_other_seeds(code: str) -> set[str]:
    """The distinct outputs of a Python program under two values of PYTHONHASHSEED."""
    return {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
