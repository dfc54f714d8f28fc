"""A pattern of many paths means exactly those paths, to a real shell."""

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reproduce.text.braces import braces

parts = st.one_of(
    st.text("abc01.-_", min_size=1, max_size=4),
    st.integers(0, 12).map(lambda n: f"rep-{n:02d}.json"),
    st.text("a b{},$'*~é\\", min_size=1, max_size=3),
)
paths = st.lists(parts, min_size=1, max_size=3).map("/".join)


def expanded(patterns: list[str]) -> list[str]:
    done = subprocess.run(
        ["/bin/bash", "-c", f"printf '%s\\0' {' '.join(patterns)}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.split("\0")[:-1]


@settings(max_examples=150)
@given(st.lists(paths, min_size=1, max_size=12))
def test_a_shell_makes_the_same_paths_of_it(listed: list[str]) -> None:
    assert sorted(expanded(braces(listed))) == sorted(set(listed))


@pytest.mark.parametrize(
    ("listed", "pattern"),
    [
        (["a/x.json"], ["a/x.json"]),
        ([f"rep-{n:02d}.json" for n in range(1, 31)], ["rep-{01..30}.json"]),
        (["rep-01.json", "rep-02.json"], ["{rep-01.json,rep-02.json}"]),
        ([f"r-{n}" for n in (1, 2, 3, 5)], ["r-{{1..3},5}"]),
        ([f"r-{n}" for n in (9, 10, 11)], ["{r-10,r-11,r-9}"]),
        (
            [f"raw/{arm}/{rung}/rep-{n}.json" for arm in "ab" for rung in ("c1", "long")
             for n in (1, 2, 3)],
            ["raw/{a,b}/{c1,long}/rep-{1..3}.json"],
        ),
        (["a/1", "a/2", "b/1"], ["a/{1,2}", "b/1"]),
        (["c1", "c4", "c8"], ["{c1,c4,c8}"]),
        (["a", "b-1", "b-2", "b-3"], ["{b-{1..3},a}"]),
        (["a b", "c"], ["c", "'a b'"]),
    ],
)  # fmt: skip
def test_patterns_are_short(listed: list[str], pattern: list[str]) -> None:
    assert braces(listed) == pattern
