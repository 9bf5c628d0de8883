"""`kind: episode_success`: rows of episodes whose recorded gate failed are rejected.

Setting: `unrecorded`, what becomes of episodes that record no success: `keep` or `drop`.
"""

from __future__ import annotations

from adaptermill.judges.judge import Example, OneByOne, Verdict


class EpisodeSuccess(OneByOne):
    reads = ("success",)

    def __init__(self, unrecorded: str) -> None:
        self.unrecorded = unrecorded

    def verdict(self, example: Example) -> Verdict:
        if example.success is None:
            reward = 1.0 if self.unrecorded == "keep" else 0.0
            return Verdict(reward, "not_recorded", "the episode records no success")
        return Verdict(float(example.success), "success" if example.success else "failure")
