"""How the answer of a judging model is read.

Both rules look at the text after its thinking (`</think>`), and give None for what they cannot
read; nothing is guessed.

- yes_no: the first word, if it is yes or no; else the one of the two that occurs anywhere as a
  word, if only one does.
- score: the number after the last "score" or "rating", else the only number there is. `7/10` is 7
  on a scale that ends at 10. A number outside the scale is not read.
"""

from __future__ import annotations

import re

from adaptermill.judges.visible import visible

_WORD = re.compile(r"[^\W\d_]+")
_NUMBER = r"([-+]?\d+(?:\.\d+)?)(?:\s*/\s*(\d+(?:\.\d+)?))?"
_LABELLED = re.compile(rf"(?:score|rating)[^\w+-]{{0,8}}(?:is[^\w+-]+)?{_NUMBER}", re.IGNORECASE)
_ANY_NUMBER = re.compile(rf"(?<![\w.]){_NUMBER}(?!\w|\.\d)")


def read_yes_no(text: str) -> str | None:
    """`yes`, `no`, or None."""
    words = [word.casefold() for word in _WORD.findall(visible(text))]
    found = {"yes", "no"} & set(words)
    if words and words[0] in found:
        return words[0]
    return found.pop() if len(found) == 1 else None


def read_score(text: str, low: float, high: float) -> float | None:
    """A number from `low` to `high`, or None."""
    spoken = visible(text)
    labelled = _LABELLED.findall(spoken)
    found = labelled[-1:] or _ANY_NUMBER.findall(spoken)
    if len(found) != 1:
        return None
    number, of = found[0]
    if of and float(of) != high:
        return None
    return float(number) if low <= float(number) <= high else None
