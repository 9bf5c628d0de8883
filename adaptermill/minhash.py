"""Near-duplicate texts: MinHash signatures over word n-grams, and an index of them (LSH).

    sign = Signer(ngram=5, permutations=128)
    signatures = np.stack([sign([prompt, answer]) for prompt, answer in texts])
    index = Index(signatures, threshold=0.85)
    index.add(0)
    index.near(signatures[1])            # [(0, 0.97)]

Two texts are near when the Jaccard similarity of their sets of n-grams, as the signatures estimate
it (standard error sqrt(s (1 - s) / permutations)), is at least the threshold. A pair exactly at the
threshold is looked at with a probability of `RECALL` or more. Hashes and permutations are fixed:
the same texts have the same signatures in every process and on every machine.
Broder, "On the resemblance and containment of documents" (1997); Leskovec, Rajaraman and Ullman,
"Mining of Massive Datasets", chapter 3.
"""

from __future__ import annotations

import zlib
from collections import OrderedDict
from collections.abc import Iterable

import numpy as np
from datasketch import LeanMinHash, MinHash, MinHashLSH

# 32-bit hashes with permutations a h + b mod 2^32.
SCHEME = "affine32"
SEED = 1
# Of the pairs at the threshold, how many share a band at the least.
RECALL = 0.99
# Texts that occur again and again, such as a system prompt, are signed once.
_REMEMBERED = 4096


def ngrams(text: str, n: int) -> set[str]:
    """The runs of `n` words of a text; white space parts words. Fewer words are one run."""
    words = text.split()
    if not words:
        return set()
    return {" ".join(words[start : start + n]) for start in range(max(1, len(words) - n + 1))}


class Signer:
    """Signs texts: the minima of `permutations` hash functions over their n-grams."""

    def __init__(self, ngram: int, permutations: int) -> None:
        self.ngram = ngram
        self._empty = MinHash(permutations, seed=SEED, hashfunc=zlib.crc32, scheme=SCHEME)
        self._known: OrderedDict[str, np.ndarray] = OrderedDict()

    def __call__(self, texts: Iterable[str]) -> np.ndarray:
        """The signature of the n-grams of all `texts` together: uint32 [permutations].

        No n-gram runs from one text into the next. Of no words at all it is the largest number
        throughout.
        """
        found = [self._empty.hashvalues, *(self._sign(text) for text in texts)]
        return np.minimum.reduce(found)

    def _sign(self, text: str) -> np.ndarray:
        known = self._known.pop(text, None)
        if known is None:
            made = self._empty.copy()
            made.update_batch(run.encode("utf-8") for run in ngrams(text, self.ngram))
            known = made.hashvalues
            if len(self._known) >= _REMEMBERED:
                self._known.popitem(last=False)
        self._known[text] = known
        return known


def bands(threshold: float, permutations: int) -> tuple[int, int]:
    """How many bands of how many rows a signature is cut into.

    The longest bands with which a pair at the threshold shares one with a probability of RECALL.
    """
    for rows in range(permutations, 0, -1):
        count = permutations // rows
        if 1 - (1 - threshold**rows) ** count >= RECALL:
            return count, rows
    return permutations, 1


class Index:
    """Lines of `signatures` (uint32 [lines, permutations]) that can be asked for by likeness."""

    def __init__(self, signatures: np.ndarray, threshold: float) -> None:
        self.signatures = signatures
        self.threshold = threshold
        permutations = signatures.shape[1]
        self._lsh = MinHashLSH(
            threshold=threshold, num_perm=permutations, params=bands(threshold, permutations)
        )

    def add(self, line: int) -> None:
        self._lsh.insert(line, _hashed(self.signatures[line]), check_duplication=False)

    def near(self, signature: np.ndarray) -> list[tuple[int, float]]:
        """The lines added so far that are near it, with their similarity; the nearest first."""
        lines = np.array(sorted(self._lsh.query(_hashed(signature))), dtype=np.int64)
        if not len(lines):
            return []
        alike = (self.signatures[lines] == signature).mean(axis=1)
        order = np.argsort(-alike, kind="stable")
        return [
            (int(lines[place]), float(alike[place]))
            for place in order
            if alike[place] >= self.threshold
        ]


def _hashed(signature: np.ndarray) -> LeanMinHash:
    return LeanMinHash(seed=SEED, hashvalues=signature, scheme=SCHEME)


def classes(signatures: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lines with one signature are one class: (a line of each class, the class of each line)."""
    _, firsts, of_line = np.unique(signatures, axis=0, return_index=True, return_inverse=True)
    return firsts, of_line.reshape(-1)
