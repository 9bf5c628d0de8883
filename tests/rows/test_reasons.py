"""Every reason that the code gives is documented with what to do, and no other one is."""

import ast
import re
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
# Where a call's arguments name the reason.
POSITIONS = {"Problem": 0, "ImageProblem": 0, "Line": 3, "Piece": 2}


def given(folder: Path) -> set[str]:
    """The reasons that are written out in calls of the classes above."""
    found = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                position = POSITIONS.get(node.func.id)
                if position is not None and len(node.args) > position:
                    argument = node.args[position]
                    if isinstance(argument, ast.Constant):
                        found.add(argument.value)
    return found


def documented() -> list[dict[str, str]]:
    """The reasons of each table of docs/ingestion.md."""
    tables: list[dict[str, str]] = []
    for line in (REPOSITORY / "docs" / "ingestion.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("| Reason |"):
            tables.append({})
        row = re.fullmatch(r"\| `(\w+)` \| (.+) \| (.+) \|", line)
        if row is not None:
            assert row[1] not in tables[-1]
            tables[-1][row[1]] = row[3]
    return tables


def test_the_tables_hold_every_reason_and_no_other():
    of_lines, of_measures = documented()
    assert set(of_lines) == given(REPOSITORY / "adaptermill" / "rows")
    assert set(of_measures) == {"template_prefix", "too_long"}


def test_every_reason_is_caused_by_a_test():
    tests = "".join(
        path.read_text(encoding="utf-8")
        for path in sorted((REPOSITORY / "tests" / "rows").glob("test_*.py"))
        if path != Path(__file__)
    )
    for reason in documented()[0]:
        assert f'"{reason}"' in tests
