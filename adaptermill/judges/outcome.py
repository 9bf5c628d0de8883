"""`kind: outcome`: the final answer against the gold one.

How they are compared follows the example's `answer_type`, unless the setting `compare` says so for
all: `exact`, `choice`, `math` or `code_output`. The final answer of a text (its thinking apart) is
what its last \\boxed{} holds, else what follows its last "answer is" or "answer:", else its last
line that is not empty.

- exact: equal after Unicode composition, without case, outer quotes and marks, runs of white space.
- choice: the letter of the option. Where the final answer does not begin with one, the last capital
  letter that stands alone ("A" before a small word is the article).
- math: math-verify (https://pypi.org/project/math-verify/) reads both and compares their values;
  it finds the final number or formula itself. A sum that is still to be done (`3 + 4` for 7) is no
  answer.
- code_output: equal line by line, white space at the ends of lines apart.
"""

from __future__ import annotations

import re
import unicodedata

from math_verify import parse, verify

from adaptermill.judges.judge import Example, OneByOne, Verdict
from adaptermill.judges.visible import visible

_BOXED = re.compile(r"\\boxed\s*\{((?:[^{}]|\{[^{}]*\})*)\}")
_SAID = re.compile(r"answer(?:\s+is)?\s*[:=]|answer\s+is", re.IGNORECASE)
_LATEX_MARK = re.compile(r"\$|\\boxed|\\\(|\\\[")
_FIRST_LETTER = re.compile(r"^\W*(?:option|choice)?\W*([A-Za-z])(?![A-Za-z0-9'])", re.IGNORECASE)
_LETTER = re.compile(r"(?<![A-Za-z0-9'])([A-H])(?![A-Za-z0-9'])(?!\s+[a-z])")
_UNDONE = re.compile(r"[\d\s.,()+\-−*×/]*\d[\s)]*[+\-−*×][\s(]*\d[\d\s.,()+\-−*×/]*")
_OUTER = " \t\r\n.,;:!?\"'`*_()[]{}“”‘’"


class Outcome(OneByOne):
    reads = ("gold", "answer_type")

    def __init__(self, compare: str | None) -> None:
        self.compare = compare

    def verdict(self, example: Example) -> Verdict:
        if example.gold is None or not example.gold.strip():
            return Verdict(None, "no_gold", "there is no gold answer to compare with")
        kind = self.compare or example.answer_type
        compare = _COMPARISONS.get(kind or "")
        if compare is None:
            return Verdict(None, "no_comparison", f"answer_type {kind!r} compares with no gold")
        right, said = compare(visible(example.output), example.gold)
        detail = f"{said!r} for {example.gold!r}"
        return Verdict(float(right), "right" if right else "wrong", detail)


def final_answer(text: str) -> str:
    """What the text gives as its answer, in its own words."""
    boxed = _BOXED.findall(text)
    if boxed:
        return boxed[-1].strip()
    said = list(_SAID.finditer(text))
    after = [found for found in said if text[found.end() :].strip()]
    if after:
        return text[after[-1].end() :].strip().splitlines()[0].strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _exact(text: str, gold: str) -> tuple[bool, str]:
    answer = final_answer(text)
    return _plain(answer) == _plain(gold), answer


def _plain(text: str) -> str:
    composed = unicodedata.normalize("NFC", text).casefold()
    return " ".join(composed.strip(_OUTER).split())


def _choice(text: str, gold: str) -> tuple[bool, str]:
    answer = letter(final_answer(text)) or _last_letter(text)
    return answer is not None and answer == letter(gold), answer or ""


def letter(text: str) -> str | None:
    """The option that a text begins with: `B`, `(b)`, `B) Paris`, `option B`."""
    found = _FIRST_LETTER.match(text)
    if found is None:
        return None
    alone = not text[found.end() :].strip(_OUTER)
    marked = text[found.end() : found.end() + 1] in tuple(").:,-*]")
    # "A dog" begins with an article, "I think" with a pronoun.
    return found[1].upper() if alone or marked else None


def _last_letter(text: str) -> str | None:
    letters = _LETTER.findall(text)
    return letters[-1] if letters else None


def _math(text: str, gold: str) -> tuple[bool, str]:
    found = parse(_delimited(text))
    if found and _UNDONE.fullmatch(str(found[-1])) and not _UNDONE.fullmatch(gold):
        return False, str(found[-1])
    right = verify(parse(gold if _LATEX_MARK.search(gold) else f"\\boxed{{{gold}}}"), found)
    return right, str(found[-1]) if found else ""


def _delimited(text: str) -> str:
    """LaTeX that stands bare is put between dollars, else only its first number would be read."""
    if "\\" in text and not _LATEX_MARK.search(text):
        return f"${final_answer(text)}$"
    return text


def _code_output(text: str, gold: str) -> tuple[bool, str]:
    said = [line.rstrip() for line in text.strip().splitlines()]
    return said == [line.rstrip() for line in gold.strip().splitlines()], "\n".join(said)


_COMPARISONS = {"exact": _exact, "choice": _choice, "math": _math, "code_output": _code_output}
