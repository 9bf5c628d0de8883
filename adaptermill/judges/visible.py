"""What an output says beside its thinking.

Apart from trajectories/thinking.py: it is in the fingerprint of judges, whose verdicts are paid.
"""

from __future__ import annotations


def visible(text: str) -> str:
    """The text after its thinking; of thinking that never ends, what stands before it."""
    if "</think>" in text:
        return text.rpartition("</think>")[2]
    return text.partition("<think>")[0]
