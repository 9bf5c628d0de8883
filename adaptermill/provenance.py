"""Identities: keys by content, and fingerprints of code by what it means.

A *key* is the hash of everything a product depends on, so a finished product can be looked up by
it. A *code fingerprint* is taken over the import closure of an entry file inside this package, by
the syntax trees without comments and docstrings: a comment changes nothing, a changed line does.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
KEY_LENGTH = 16


def canonical(value: object) -> str:
    """JSON with sorted keys and no spaces: equal settings give equal text, however spelled.

    Whole floats are written as integers, since `3` and `3.0` mean the same in a configuration.
    """

    def plain(node: object) -> object:
        if isinstance(node, dict):
            return {str(name): plain(child) for name, child in node.items()}
        if isinstance(node, (list, tuple)):
            return [plain(child) for child in node]
        if isinstance(node, float) and node.is_integer() and abs(node) < 2**53:
            return int(node)
        return node

    return json.dumps(plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def key(**parts: object) -> str:
    """The first 16 hex digits of the SHA-256 of the canonical JSON of `parts`."""
    return hashlib.sha256(canonical(parts).encode("utf-8")).hexdigest()[:KEY_LENGTH]


def code_fingerprint(*entries: str | Path) -> str:
    """A hash of what the code reachable from `entries` (Python files) means.

    The closure follows imports of this package, also those inside functions. Comments, docstrings
    and layout do not count. Returns 16 hex digits.
    """
    digest = hashlib.sha256()
    # By the place in the package, never the place on disk: a checkout elsewhere is equal.
    for name, tree in _trees(entries).items():
        digest.update(f"{name}\0{tree}\0".encode())
    return digest.hexdigest()[:KEY_LENGTH]


def code_parts(*entries: str | Path) -> dict[str, str]:
    """What `code_fingerprint` covers, file by file: its place in the package -> a hash."""
    return {name: key(tree=tree) for name, tree in _trees(entries).items()}


def _trees(entries: Iterable[str | Path]) -> dict[str, str]:
    """Place in the package -> syntax tree, for all files reachable from `entries`, sorted."""
    trees = {}
    waiting = [Path(entry).resolve() for entry in entries]
    while waiting:
        path = waiting.pop()
        if path not in trees:
            tree, imports = _parse(path, path.stat().st_mtime_ns)
            trees[path] = tree
            waiting.extend(imports)
    return dict(sorted((_label(path), tree) for path, tree in trees.items()))


def _label(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix() if path.is_relative_to(PACKAGE) else path.name


@functools.cache
def _parse(path: Path, mtime_ns: int) -> tuple[str, tuple[Path, ...]]:
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    imports = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = _absolute(node, path)
            names = [module] + [f"{module}.{alias.name}" for alias in node.names]
        else:
            names = []
        for name in names:
            imports.update(_package_files(name))
    for node in ast.walk(tree):
        documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            # A body may not be empty; `pass` stands for a docstring that was all of it.
            node.body = node.body[1:] or [ast.Pass()]
    return ast.dump(tree), tuple(sorted(imports))


def _absolute(node: ast.ImportFrom, path: Path) -> str:
    if not node.level:
        return node.module or ""
    folder = path.parent
    for _ in range(node.level - 1):
        folder = folder.parent
    base = ".".join((PACKAGE.name, *folder.relative_to(PACKAGE).parts))
    return f"{base}.{node.module}" if node.module else base


def _package_files(name: str) -> list[Path]:
    """The files that importing `name` runs: the module and the packages above it."""
    parts = name.split(".")
    if parts[0] != PACKAGE.name:
        return []
    files = []
    for depth in range(1, len(parts) + 1):
        folder = PACKAGE.joinpath(*parts[1:depth])
        for candidate in (folder / "__init__.py", folder.with_suffix(".py")):
            if candidate.is_file():
                files.append(candidate)
    return files
