"""What a result suspects is a value; its words are made in one place, and nobody reads them back."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from string import Formatter

import numpy as np
import pytest
from makers import correlated_noise

import coad
from coad import select_thresholds
from coad.core import verdict
from coad.core.verdict import FOUND, NO_COINCIDENCE, SHARED_REGIME, Suspicion, in_words

rng = np.random.default_rng(0)
NOISE = rng.normal(size=(2, 300))
REGIME = rng.normal(size=(2, 2000)) + 4 * (rng.random(2000) < 0.4)
CONSTANT = np.ones((2, 100))
CORRELATED = correlated_noise(500, 0.5, 0)
HEAVY = correlated_noise(10_000, 0.3, 0, freedom=8)
OPPOSED = np.array([np.arange(100.0), -np.arange(100.0)])


@pytest.mark.parametrize(
    ("scores", "status", "code"),
    [
        (NOISE * [[1], [-1]], NO_COINCIDENCE, "not_significant"),
        (CORRELATED, NO_COINCIDENCE, "only_correlated"),
        (HEAVY, SHARED_REGIME, "heavy_tails"),
        (REGIME, SHARED_REGIME, "rate"),
        (CONSTANT, NO_COINCIDENCE, "top_heavy"),
        (OPPOSED, NO_COINCIDENCE, "nothing_joint"),
    ],
)
def test_a_result_carries_its_suspicions_as_codes_and_its_message_says_them(scores, status, code):
    result = select_thresholds(*scores, n_permutations=40)
    assert (result.status, [one.code for one in result.suspicions]) == (status, [code])
    assert in_words(result.suspicions) in result.message
    assert json.loads(json.dumps(result.to_dict()))["suspicions"][0]["code"] == code


def test_what_is_found_has_no_suspicions():
    s, q = rng.normal(size=(2, 1000))
    s[:40] += 6
    q[:40] += 6
    order = rng.permutation(1000)
    result = select_thresholds(s[order], q[order], n_permutations=40)
    assert (result.status, result.suspicions) == (FOUND, ())
    assert in_words(()) == ""
    assert isinstance(hash(result), int)


@pytest.mark.parametrize("code", verdict._WORDS)
def test_every_code_has_words_for_its_numbers(code):
    fields = {name for _, name, _, _ in Formatter().parse(verdict._WORDS[code]) if name} - {"s"}
    assert in_words([Suspicion(code, dict.fromkeys(fields, 1))])


def test_an_unknown_code_is_refused():
    with pytest.raises(ValueError, match="unknown code"):
        Suspicion("hunch")


def test_no_sentence_of_ours_is_parsed():
    """A ``.message`` is printed, never taken apart."""
    taken_apart = re.compile(
        r"\bmessage\.(split|partition|rpartition|removeprefix|removesuffix|startswith|endswith)"
    )
    for path in Path(coad.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                assert not taken_apart.search(ast.unparse(node)), path
