"""The row: its columns in Parquet, and how it is read back.

A *row* is one step of an agent: the messages it was shown and the target it must answer. The Arrow
schemas below are the only description of the shards; nothing is inferred. Reading a row back gives
the JSON record that came in, key by key.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

HASH_LENGTH = 32

ROW_SCHEMA = pa.schema(
    [
        # <source>/<task_id>/<step>: unique in the whole data set
        pa.field("row_id", pa.string(), nullable=False),
        # name of the source in the configuration
        pa.field("source", pa.string(), nullable=False),
        pa.field("task_id", pa.string(), nullable=False),
        pa.field("step", pa.int32(), nullable=False),
        # as in the data, before the configuration's renames
        pa.field("family", pa.string(), nullable=False),
        # name of the action
        pa.field("op", pa.string(), nullable=False),
        # plain, recovery or chain
        pa.field("variant", pa.string(), nullable=False),
        # source episodes, for splits and fractions
        pa.field("sources", pa.list_(pa.string()), nullable=False),
        pa.field("macro", pa.string()),
        pa.field("site", pa.string()),
        # the episode's recorded outcome, where there is one
        pa.field("success", pa.bool_()),
        # false for what is never trained on and never evaluated
        pa.field("trainable", pa.bool_(), nullable=False),
        # why that is so, null for all other rows: `injected` (a mistake made on purpose),
        # `copied_prefix` (the steps copied before one), `weight_zero` (the answer's weight is 0),
        # `undesired` (marked as an answer not to give)
        pa.field("untrainable", pa.string()),
        # JSON of the record's messages, as they came
        pa.field("messages", pa.string(), nullable=False),
        pa.field("target", pa.string(), nullable=False),
        # JSON of the record in its own key order, messages and target as null
        pa.field("fields", pa.string(), nullable=False),
        # episode.json as JSON, the same in every row of the episode; null if missing or broken
        pa.field("episode", pa.string()),
        # SHA-256 of each image, in order of appearance
        pa.field("images", pa.list_(pa.string()), nullable=False),
        # messages without, and with, the images' content
        pa.field("text_hash", pa.string(), nullable=False),
        pa.field("prompt_hash", pa.string(), nullable=False),
        pa.field("target_hash", pa.string(), nullable=False),
        # of messages, images and target: the identity of what is trained on
        pa.field("content_hash", pa.string(), nullable=False),
    ]
)

IMAGE_SCHEMA = pa.schema(
    [
        pa.field("sha256", pa.string(), nullable=False),
        # the original bytes, and the file's name in its episode (null for a data: URL); Hugging
        # Face `datasets` shows pictures after `.cast_column("image", datasets.Image())`
        pa.field("image", pa.struct([("bytes", pa.large_binary()), ("path", pa.string())])),
        pa.field("format", pa.string(), nullable=False),
        pa.field("mode", pa.string(), nullable=False),
        # in pixels, after the EXIF orientation is applied
        pa.field("width", pa.int32(), nullable=False),
        pa.field("height", pa.int32(), nullable=False),
        # what decoding will change (see images.py), comma separated; null for nothing
        pa.field("change", pa.string()),
    ]
)

QUARANTINE_SCHEMA = pa.schema(
    [
        pa.field("source", pa.string(), nullable=False),
        pa.field("file", pa.string(), nullable=False),
        # counted from 1; 0 is the file as a whole
        pa.field("line", pa.int64(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("message", pa.string(), nullable=False),
        # the line's first 200 characters
        pa.field("excerpt", pa.string(), nullable=False),
    ]
)


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def dump(value: Any) -> str:
    """Compact JSON that keeps key order and leaves text as it is."""
    return _ENCODER.encode(value)


def digest(*parts: str) -> str:
    """The first 32 hex digits of the SHA-256 of the parts, each ended by a zero byte."""
    found = hashlib.sha256()
    for part in parts:
        found.update(part.encode("utf-8") + b"\0")
    return found.hexdigest()[:HASH_LENGTH]


def image_parts(messages: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The image parts of chat messages, in order of appearance."""
    for message in messages:
        content = message["content"]
        if not isinstance(content, str):
            yield from (part for part in content if part.get("type") == "image_url")


def with_image_urls(
    messages: Sequence[Mapping[str, Any]], url_of: Callable[[int], str]
) -> list[dict[str, Any]]:
    """A copy of the messages whose k-th image has the URL `url_of(k)`."""
    count = 0
    copied = []
    for message in messages:
        content = message["content"]
        if not isinstance(content, str):
            parts = []
            for part in content:
                if part.get("type") == "image_url":
                    part = {"type": "image_url", "image_url": {"url": url_of(count)}}
                    count += 1
                parts.append(part)
            content = parts
        copied.append({**message, "content": content})
    return copied


def content_hashes(
    messages: Sequence[Mapping[str, Any]], target: str, images: Sequence[str]
) -> dict[str, str]:
    """The four hashes of a row. Where a screenshot lies does not matter, what it shows does."""
    prompt = digest(dump(with_image_urls(messages, lambda k: images[k])))
    return {
        "text_hash": digest(dump(with_image_urls(messages, lambda k: "image"))),
        "prompt_hash": prompt,
        "target_hash": digest(target),
        "content_hash": digest(prompt, target),
    }


@dataclass(frozen=True)
class Row:
    """One step of an agent, as read from a shard. `images` holds the SHA-256 of each image."""

    row_id: str
    source: str
    task_id: str
    step: int
    family: str
    op: str
    variant: str
    sources: tuple[str, ...]
    trainable: bool
    target: str
    images: tuple[str, ...]
    text_hash: str
    prompt_hash: str
    target_hash: str
    content_hash: str
    messages_json: str
    fields_json: str

    @cached_property
    def messages(self) -> list[dict[str, Any]]:
        return json.loads(self.messages_json)

    @property
    def record(self) -> dict[str, Any]:
        """The JSON record that came in, keys in their order."""
        record = json.loads(self.fields_json)
        record["messages"] = self.messages
        record["target"] = self.target
        return record

    @classmethod
    def from_columns(cls, values: Mapping[str, Any]) -> Row:
        """A row from one line of ROW_SCHEMA."""
        plain = {name: values[name] for name in cls.__dataclass_fields__ if name in values}
        plain["sources"] = tuple(values["sources"])
        plain["images"] = tuple(values["images"])
        return cls(**plain, messages_json=values["messages"], fields_json=values["fields"])
