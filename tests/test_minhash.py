"""Signatures are functions of the text alone, and the index finds what is near and nothing else."""

import itertools
import random
from pathlib import Path

import numpy as np
import pytest

from adaptermill.minhash import RECALL, Index, Signer, bands, classes, ngrams
from tests.hash_seeds import said_with_other_seeds

REPOSITORY = Path(__file__).resolve().parents[1]
WORDS = [f"w{k}" for k in range(400)]


def jaccard(one: str, other: str, n: int = 5) -> float:
    first, second = ngrams(one, n), ngrams(other, n)
    return len(first & second) / len(first | second)


def family(count: int, seed: int = 0) -> list[str]:
    """Texts from one, with more and more of their words changed."""
    random_words = random.Random(seed)
    start = random_words.choices(WORDS, k=150)
    made = []
    for changed in range(count):
        words = list(start)
        for place in random_words.sample(range(150), changed):
            words[place] = "changed"
        made.append(" ".join(words))
    return made


def signed(texts: list[str], permutations: int = 128) -> np.ndarray:
    sign = Signer(5, permutations)
    return np.stack([sign([text]) for text in texts])


def test_ngrams_are_runs_of_words():
    assert ngrams("a b  c\nd", 3) == {"a b c", "b c d"}
    assert ngrams("a b", 3) == {"a b"}
    assert ngrams(" \n", 3) == set()
    assert ngrams("a b", 1) == {"a", "b"}


def test_signatures_estimate_the_jaccard_similarity():
    texts = family(12)
    signatures = signed(texts, 1024)
    for one, other in itertools.combinations(range(12), 2):
        estimate = (signatures[one] == signatures[other]).mean()
        assert abs(estimate - jaccard(texts[one], texts[other])) < 0.06


def test_texts_are_signed_as_one_set_and_in_any_order():
    sign = Signer(3, 64)
    one, other = sign(["a b c d"]), sign(["x y z"])
    assert (sign(["a b c d", "x y z"]) == np.minimum(one, other)).all()
    assert (sign(["x y z", "a b c d", ""]) == sign(["a b c d", "x y z"])).all()
    # No run of words goes from one text into the next.
    assert (sign(["a b c d x y z"]) != sign(["a b c d", "x y z"])).any()
    assert one.dtype == np.uint32
    assert (sign([]) == 2**32 - 1).all()


def test_signatures_are_the_same_in_every_process():
    code = (
        "from adaptermill.minhash import Signer\n"
        "print(Signer(2, 16)(['press the blue button', 'größe']).tolist())"
    )
    said = said_with_other_seeds(code)
    here = Signer(2, 16)(["press the blue button", "größe"])
    assert said == {f"{here.tolist()}\n"}
    # Other signatures would move groups of near-duplicates: change this only on purpose.
    assert here[:3].tolist() == [522167707, 269522511, 273442233]


@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.85, 0.95, 1.0])
@pytest.mark.parametrize("permutations", [16, 64, 128, 256])
def test_bands_find_pairs_at_the_threshold(threshold, permutations):
    count, rows = bands(threshold, permutations)
    assert count * rows <= permutations
    assert 1 - (1 - threshold**rows) ** count >= RECALL or rows == 1


def test_the_index_finds_what_is_near_and_says_how_near():
    texts = [text for seed in range(6) for text in family(8, seed)]
    signatures = signed(texts)
    index = Index(signatures, 0.7)
    for line in range(len(texts)):
        index.add(line)
    for line, signature in enumerate(signatures):
        alike = (signatures == signature).mean(axis=1)
        wanted = {other for other in range(len(texts)) if alike[other] >= 0.7}
        found = dict(index.near(signature))
        assert set(found) <= wanted
        assert {other for other in wanted if alike[other] > 0.75} <= set(found)
        assert all(found[other] == alike[other] for other in found)
        assert list(found.values()) == sorted(found.values(), reverse=True)
        assert found[line] == 1
        # Texts of other families are not near.
        assert {other // 8 for other in found} == {line // 8}


def test_an_index_that_holds_nothing_finds_nothing():
    assert Index(signed(["a b c"]), 0.5).near(signed(["a b c"])[0]) == []


def test_lines_with_one_signature_are_one_class():
    firsts, of_line = classes(signed(["a b", "c d", "a b", "a  b"]))
    assert sorted(firsts) == [0, 1]
    assert of_line[0] == of_line[2] == of_line[3] != of_line[1]
