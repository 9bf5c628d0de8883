"""Advantages: how much better a message's reward is than its group's.

A *group* is what one seat of one system said to one query, over all rollouts.
"""

from __future__ import annotations

import pandas as pd

# The query's text is part of it, since other data may give another query the same id.
GROUP = ["query_id", "query", "system", "seat"]


def advantages(messages: pd.DataFrame) -> pd.Series:
    """Reward less the mean reward of the group, float64; null where there is no reward.

    `messages` has GROUP and `reward`. Messages without a reward do not count in the mean.
    """
    means = messages.groupby(GROUP, sort=False, dropna=False)["reward"].transform("mean")
    return messages["reward"] - means
