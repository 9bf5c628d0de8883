"""Thoughts in an output: `<think>…</think>`, and the visible text after them."""

from __future__ import annotations

OPEN, CLOSE = "<think>", "</think>"


def is_unclosed(output: str) -> bool:
    """Whether the output begins to think and never ends to, as one that was cut does."""
    return OPEN in output and CLOSE not in output


def split(output: str) -> tuple[str, str]:
    """(thought with its closing tag, text after it).

    The last tag counts. Without any, all of the output is visible, unless it is unclosed: then
    nothing is.
    """
    if is_unclosed(output):
        return output, ""
    thought, tag, text = output.rpartition(CLOSE)
    return thought + tag, text


def after(target: str) -> str:
    """What caps compare: the target's text after `</think>`, stripped of white space."""
    return target.rpartition(CLOSE)[2].strip()
