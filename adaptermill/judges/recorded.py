"""`kind: recorded`: the reward that came with the data, or else the recorded success.

Settings: `low` and `high`, the recorded rewards that stand for 0 and for 1 (linear in between).
"""

from __future__ import annotations

from adaptermill.judges.judge import Example, OneByOne, Verdict


class Recorded(OneByOne):
    reads = ("reward", "success")

    def __init__(self, low: float, high: float) -> None:
        self.low = low
        self.high = high

    def verdict(self, example: Example) -> Verdict:
        if example.reward is not None:
            reward = (example.reward - self.low) / (self.high - self.low)
            if not 0 <= reward <= 1:
                said = f"recorded reward {example.reward:g} is not in [{self.low:g}, {self.high:g}]"
                return Verdict(None, "out_of_range", said)
            return Verdict(reward, "recorded", f"recorded reward {example.reward:g}")
        if example.success is not None:
            return Verdict(float(example.success), "success" if example.success else "failure")
        return Verdict(None, "not_recorded", "neither a reward nor a success came with it")
