"""OpenAI's chat format for fine-tuning: a line is `{"messages": […]}`, its last message the answer.

Images are `image_url` parts: data: URLs, or files below the JSONL file's folder. Every other key of
a line (`tools`, `parallel_tool_calls`, your own) is kept with the row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adaptermill.rows.readers.conversation import Conversation, answered, listed
from adaptermill.rows.readers.jsonl import JsonlReader


class OpenaiReader(JsonlReader):
    """Reads `{"messages": […]}`."""

    @classmethod
    def converse(cls, record: Mapping[str, Any]) -> Conversation:
        messages, target, untrainable = answered(listed(record, "messages"), "messages")
        return Conversation(messages, target, frozenset(["messages"]), untrainable)
