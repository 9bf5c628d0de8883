"""Keys and code fingerprints change with meaning and with nothing else."""

import shutil
from pathlib import Path

from adaptermill import provenance
from adaptermill.provenance import canonical, code_fingerprint, key

REPOSITORY = Path(__file__).resolve().parents[1]


def test_keys_do_not_depend_on_order_or_spelling():
    assert key(a=1e-4, b={"x": 1, "y": 2}) == key(b={"y": 2, "x": 1}, a=0.0001)
    assert canonical({"epochs": 3.0}) == canonical({"epochs": 3})
    assert key(rank=16, alpha=8) != key(rank=8, alpha=16)


def fingerprint_of(tmp_path: Path, monkeypatch, edit=None) -> str:
    """The fingerprint of scripts/publish.py in a copy of the package, after `edit(folder)`."""
    copy = tmp_path / str(len(list(tmp_path.iterdir())))
    shutil.copytree(REPOSITORY / "adaptermill", copy / "adaptermill")
    shutil.copytree(REPOSITORY / "scripts", copy / "scripts")
    if edit is not None:
        edit(copy)
    monkeypatch.setattr(provenance, "PACKAGE", copy / "adaptermill")
    return code_fingerprint(copy / "scripts" / "publish.py")


def append(name: str, text: str):
    def edit(folder: Path) -> None:
        path = folder / name
        path.write_text(path.read_text(encoding="utf-8") + text, encoding="utf-8")

    return edit


def replace(name: str, old: str, new: str):
    def edit(folder: Path) -> None:
        path = folder / name
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")

    return edit


def test_fingerprint_ignores_comments_docstrings_and_files_outside_the_closure(
    tmp_path, monkeypatch
):
    plain = fingerprint_of(tmp_path, monkeypatch)
    comment = append("adaptermill/atomic.py", "\n\n# a remark\n")
    docstring = replace("adaptermill/atomic.py", "whole or not at all", "whole, or not at all")
    elsewhere = append("adaptermill/config.py", "\n\nNEW = 1\n")
    for edit in (None, comment, docstring, elsewhere):
        assert fingerprint_of(tmp_path, monkeypatch, edit) == plain


def test_fingerprint_sees_logic_in_the_script_and_in_what_it_imports(tmp_path, monkeypatch):
    edits = [
        None,
        append("scripts/publish.py", "\nX = 1\n"),
        append("adaptermill/atomic.py", "\nX = 1\n"),
        append("adaptermill/errors.py", "\nX = 1\n"),
        append("adaptermill/__init__.py", "\nX = 1\n"),
    ]
    found = [fingerprint_of(tmp_path, monkeypatch, edit) for edit in edits]
    assert len(set(found)) == len(edits)
