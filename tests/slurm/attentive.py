"""Snakemake, looking every second how its cluster jobs fare.

The plugin looks after 1, 12, 33, … seconds: a chain of short jobs would take as many minutes.
"""

import sys

from snakemake.cli import main
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor

RemoteExecutor.next_seconds_between_status_checks = property(lambda self: 1, lambda self, n: None)

if __name__ == "__main__":
    sys.exit(main())
