"""Judges in the workflow: their products, and how the rules ask for them."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from adaptermill.config import Config
from adaptermill.errors import UserError
from adaptermill.judge_specs import endpoint_settings, used_judges

RESULTS = Path("results")


class JudgeStages:
    """The judges of one configuration; `used` are those that an adapter has."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.used = list(used_judges(config))

    def require(self, name: str) -> None:
        """`UserError` unless an adapter has that judge."""
        if name not in self.used:
            raise UserError(
                f"results/judged/{name}.parquet: no adapter of this configuration has "
                f"`judge: {name}`, so nothing asks for its verdicts"
            )

    def verdicts(self, name: str) -> str:
        return str(RESULTS / "judged" / f"{name}.parquet")

    def digest(self, name: str) -> str:
        """The file that holds the hash of a judge's verdicts, written when the hash changes."""
        return str(RESULTS / ".work" / "digests" / "judged" / name)

    def keeps(self, name: str) -> tuple[str, ...]:
        """What the fit sets below a judge read without naming it as an input."""
        return self.verdicts(name), self.digest(name)

    def digests(self, adapter: str) -> list[str]:
        """What stands for the verdicts that an adapter's fit set asks for."""
        judge = self.config.recipes[adapter].judge
        return [] if judge is None else [self.digest(judge)]

    def fitset_arguments(self, adapter: str) -> str:
        judge = self.config.recipes[adapter].judge
        return "" if judge is None else f"--judged {self.verdicts(judge)}"

    def endpoint_arguments(self, name: str) -> str:
        """How requests travel, for `scripts/judge.py`: it changes no verdict."""
        endpoint = endpoint_settings(self.config, name)
        return "" if endpoint is None else f"--endpoint {shlex.quote(json.dumps(endpoint))}"
