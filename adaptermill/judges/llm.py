"""`kind: llm`: a language model says yes or no, or gives a score.

The model gets the judge's template over each example and answers in words; the answer is read by a
stated rule (answer_rules.py). What cannot be read, or what the model's server will not take, has no
reward, and is counted. Where the model runs (endpoint.py, local_model.py) is no business of this
module; how requests travel is in no fingerprint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from adaptermill.judges.answer_rules import read_score, read_yes_no
from adaptermill.judges.judge import Example, Keep, Verdict
from adaptermill.judges.template import Template

# The longest answer that is kept as a verdict's detail, in characters.
MAX_DETAIL = 2000


@dataclass(frozen=True)
class Answer:
    """What came back for a prompt.

    `fault` is None for a model's answer; `refused` where its server would not take the prompt, and
    `unreadable` where what came was no answer. `text` then says why.
    """

    text: str
    fault: str | None = None


class Model(Protocol):
    """Whatever answers prompts."""

    def answer_all(
        self,
        examples: Iterable[Example],
        prompt: Callable[[Example], list[dict[str, Any]]],
        keep: Callable[[Example, Answer], None],
    ) -> None:
        """Calls `keep(example, answer)` for each as soon as its `prompt` is answered."""


class Llm:
    def __init__(self, template: Template, settings: dict[str, Any], model: Model) -> None:
        self.template = template
        self.settings = settings
        self.model = model
        self.reads = ("gold",) if template.uses_gold else ()

    def judge(self, examples: Iterable[Example], keep: Keep) -> None:
        self.model.answer_all(
            examples,
            self.template.messages,
            lambda example, answer: keep(example, self.read(answer)),
        )

    def read(self, answer: Answer) -> Verdict:
        """The verdict that an answer means."""
        # Half a surrogate pair could not be stored.
        said = answer.text.strip()[:MAX_DETAIL].encode("utf-8", "replace").decode("utf-8")
        if answer.fault is not None:
            return Verdict(None, answer.fault, said)
        if self.settings["answer"] == "yes_no":
            word = read_yes_no(answer.text)
            if word is not None:
                return Verdict(float(word == self.settings["good"]), word, said)
        else:
            low, high = self.settings["scale"]
            score = read_score(answer.text, low, high)
            if score is not None:
                return Verdict((score - low) / (high - low), f"{score:g}", said)
        return Verdict(None, "unreadable", said)
