"""Verdicts are kept line by line: a torn one is dropped, a damaged one refused, writers wait."""

import subprocess
import sys

import pytest

from adaptermill.errors import UserError
from adaptermill.judges.judge import Verdict
from adaptermill.judges.store import Verdicts

SAID = Verdict(0.5, "yes", "Ja \u2028 \U0001f600 \x00")


def test_what_was_kept_is_known_again(tmp_path):
    with Verdicts(tmp_path, "f") as verdicts:
        verdicts.keep("a", SAID)
        verdicts.keep("b", Verdict(None, "unreadable"))
    with Verdicts(tmp_path, "f") as verdicts:
        assert verdicts.known == {"a": SAID, "b": Verdict(None, "unreadable")}
    with Verdicts(tmp_path, "g") as verdicts:
        assert verdicts.known == {}, "another judge's verdicts are no answer"


def test_a_line_is_on_disk_as_soon_as_it_is_kept(tmp_path):
    with Verdicts(tmp_path, "f") as verdicts:
        verdicts.keep("a", SAID)
        assert verdicts.path.read_bytes().count(b"\n") == 1


@pytest.mark.parametrize("cut", [1, 5, 30])
def test_a_torn_last_line_is_judged_again(tmp_path, cut):
    with Verdicts(tmp_path, "f") as verdicts:
        verdicts.keep("a", SAID)
        verdicts.keep("b", SAID)
    verdicts.path.write_bytes(verdicts.path.read_bytes()[:-cut])
    with Verdicts(tmp_path, "f") as verdicts:
        assert set(verdicts.known) == {"a"}
        verdicts.keep("c", SAID)
    with Verdicts(tmp_path, "f") as verdicts:
        assert verdicts.known == {"a": SAID, "c": SAID}


def test_a_damaged_line_is_an_error_that_names_it(tmp_path):
    with Verdicts(tmp_path, "f") as verdicts:
        verdicts.keep("a", SAID)
    verdicts.path.write_bytes(b"garbage\n" + verdicts.path.read_bytes())
    with pytest.raises(UserError, match=r"verdicts.jsonl, line 1, is no verdict"):
        Verdicts(tmp_path, "f").__enter__()


def test_a_second_run_of_the_same_judge_waits_for_the_first(tmp_path):
    code = (
        "import sys; from pathlib import Path\n"
        "from adaptermill.judges.store import Verdicts\n"
        "with Verdicts(Path(sys.argv[1]), 'f') as verdicts: print(sorted(verdicts.known))"
    )
    with Verdicts(tmp_path, "f") as verdicts:
        verdicts.keep("a", SAID)
        second = subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        assert "waiting" in second.stdout.readline()
        verdicts.keep("b", SAID)
    assert second.communicate()[0] == "['a', 'b']\n"
