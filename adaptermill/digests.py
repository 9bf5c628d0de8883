"""A hash of a table's rows, so that what stands on them can tell whether there is news."""

from __future__ import annotations

import hashlib
import io

import pyarrow as pa


def table_hash(table: pa.Table) -> str:
    """A hash of a table's columns and rows, whatever file they are written to.

    Equal tables that were put together otherwise may rarely differ; different ones never agree.
    """
    found = hashlib.sha256()
    plain = table.replace_schema_metadata(None).combine_chunks()
    with pa.ipc.new_stream(_HashedSink(found), plain.schema) as writer:
        writer.write_table(plain)
    return found.hexdigest()


class _HashedSink(io.RawIOBase):
    """A file that only hashes what is written to it."""

    def __init__(self, found: hashlib._Hash) -> None:
        self.found = found

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        view = memoryview(data)  # type: ignore[arg-type]
        self.found.update(view)
        return view.nbytes
