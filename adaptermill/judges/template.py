"""The prompt of a judge that is a language model: a Jinja template over one example.

    template = Template(text, system=None)
    template.messages(example)           # chat messages in OpenAI's form

A template may use `query` (the last user message), `prompt` (all messages), `output` and `gold`.
"""

from __future__ import annotations

from typing import Any

from jinja2 import StrictUndefined, TemplateError, meta
from jinja2.sandbox import SandboxedEnvironment

from adaptermill.errors import UserError
from adaptermill.judges.judge import Example, last_user_text, message_text

VARIABLES = ("query", "prompt", "output", "gold")
_ENVIRONMENT = SandboxedEnvironment(undefined=StrictUndefined, autoescape=False)


class Template:
    """A checked template; `UserError` when it is no Jinja, or uses what there is not."""

    def __init__(self, text: str, system: str | None) -> None:
        try:
            used = meta.find_undeclared_variables(_ENVIRONMENT.parse(text))
        except TemplateError as error:
            raise UserError(f"the judge's template is not Jinja: {error}") from None
        unknown = sorted(used - set(VARIABLES))
        if unknown:
            raise UserError(
                f"the judge's template uses {', '.join(unknown)}; there are {', '.join(VARIABLES)}"
            )
        if "output" not in used:
            raise UserError("the judge's template never shows {{ output }}, which is to be judged")
        self.uses_gold = "gold" in used
        self.system = system
        self._template = _ENVIRONMENT.from_string(text)

    def messages(self, example: Example) -> list[dict[str, Any]]:
        text = self._template.render(
            query=last_user_text(example.messages),
            prompt=_conversation(example),
            output=example.output,
            gold=example.gold or "",
        )
        before = [] if self.system is None else [{"role": "system", "content": self.system}]
        return [*before, {"role": "user", "content": text}]


def _conversation(example: Example) -> str:
    if len(example.messages) == 1:
        return message_text(example.messages[0])
    return "\n\n".join(f"{m['role']}: {message_text(m)}" for m in example.messages)
