"""Role prompts: text files that a user edits, one an agent.

    You are the critic. Check what was said before you.
    ---
    {messages}

    {query}

What stands above the line `---` is the system message, what stands below it the user's; without
that line all of the file is the user's message. `{query}`, `{messages}` (what the agent sees of
earlier agents, a line each) and `{role}` are filled in; other braces are text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from adaptermill.errors import UserError

QUERY, MESSAGES = "{query}", "{messages}"
_PLACE = re.compile(r"\{(query|messages|role)\}")
_BORDER = "---"


@dataclass(frozen=True)
class RolePrompt:
    """The two messages that an agent is prompted with; `system` may be empty."""

    system: str
    user: str

    @property
    def text(self) -> str:
        return f"{self.system}\n{self.user}"

    def messages(self, filled: Mapping[str, str]) -> list[dict[str, str]]:
        """Chat messages with `query`, `messages` and `role` filled in, each one once."""
        made = [("system", self.system), ("user", self.user)]
        return [
            {"role": role, "content": _PLACE.sub(lambda found: filled[found[1]], text).strip()}
            for role, text in made
            if text.strip()
        ]


def read_prompt(path: Path | None, role: str, sees_others: bool) -> RolePrompt:
    """The role's prompt from a file, or the shipped one (`path` None).

    `sees_others`: earlier messages are handed to the agent. `UserError` when the file cannot be
    read, lacks `{query}`, or lacks `{messages}` for an agent that is to see some.
    """
    name = str(path) if path is not None else f"the shipped prompt of {role}"
    try:
        text = _shipped(role, sees_others) if path is None else path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"the role prompt {name} cannot be read: {error}") from None
    prompt = _parsed(text)
    if QUERY not in prompt.user:
        raise UserError(
            f"the role prompt {name} ({role}) has no {QUERY} in its user message: the agent would "
            f"never see the question. Write {QUERY} where it belongs"
        )
    if sees_others and MESSAGES not in prompt.text:
        raise UserError(
            f"the role prompt {name} ({role}) has no {MESSAGES}: the agent would not see what "
            f"agents before it said. Write {MESSAGES} where it belongs"
        )
    return prompt


def shipped() -> dict[str, str]:
    """The shipped prompts: file name -> text."""
    folder = files("adaptermill.rollouts") / "templates"
    return {each.name: each.read_text(encoding="utf-8") for each in folder.iterdir()}


def _parsed(text: str) -> RolePrompt:
    lines = text.splitlines()
    border = next((n for n, line in enumerate(lines) if line.strip() == _BORDER), None)
    if border is None:
        return RolePrompt("", text.strip())
    return RolePrompt("\n".join(lines[:border]).strip(), "\n".join(lines[border + 1 :]).strip())


def _shipped(role: str, sees_others: bool) -> str:
    folder = files("adaptermill.rollouts") / "templates"
    named = folder / f"{role}.txt"
    if named.is_file() and (sees_others == (MESSAGES in named.read_text(encoding="utf-8"))):
        return named.read_text(encoding="utf-8")
    other = folder / ("judger.txt" if sees_others else "apart.txt")
    return other.read_text(encoding="utf-8")
