"""Real files made wrong: bytes and values that no honest writer writes, anywhere in them."""

import copy
import functools
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

Draw = Callable[[st.SearchStrategy[Any]], Any]


def deep(levels: int) -> Any:
    return functools.reduce(lambda inner, _: [inner], range(levels), 0)


VALUES = st.one_of(
    st.sampled_from([
        None, True, False, 0, -1, 1, 2**63, -(2**64), 10**400, 1e308, -1e308, 5e-324, float("nan"),
        float("inf"), float("-inf"), "", " ", "1", "x" * 5000, "\x00", "\ud800", "\u2028", "../x",
        "/etc", "-1", "[red]", "\x1b[31m", [], {}, [[]], [None], {"": None}, deep(40), "1e999",
        "2026-11-29T12:00:00", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59+14:00",
    ]),
    st.integers(), st.floats(), st.text(max_size=12), st.lists(st.floats(), max_size=4),
    st.dictionaries(st.text(max_size=6), st.integers() | st.text(max_size=6), max_size=3),
)  # fmt: skip
CHUNKS = st.one_of(
    st.sampled_from([
        b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b'"', b"{", b"}", b"[" * 1500, b"]", b"\\ud800",
        b"NaN", b"-Infinity", b"1e999", b"9" * 4500, b"0x" + b"f" * 5000, b"\r", b"\n", b"\x1b[",
        b'"a": 1, "a": 2, ', b"&a [*a]", b"<<: *a", b"!!python/object/apply:os.system ['true']",
        b"!!int ''", b"!!timestamp x", b"2026-13-45", b"? {}\n: 1\n", b"---\n", b"\t", b"=", b"%",
        b" -> ; -> ", b"Fused: ", b" [repeated 99999999999x across cluster]", b" " * 3000,
        "٣".encode(), "²".encode(), b"GiB", b"tokens", b"enforce_eager=",
    ]),
    st.binary(max_size=16), st.text(max_size=12).map(lambda text: text.encode()),
)  # fmt: skip


@st.composite
def damaged(draw: Draw, seeds: list[bytes]) -> bytes:
    """A real file with bytes taken out, repeated or put in."""
    data = draw(st.sampled_from(seeds))
    for _ in range(draw(st.integers(1, 3))):
        begin = draw(st.integers(0, len(data)))
        end = begin + draw(st.integers(0, 60))
        middle = draw(st.one_of(st.just(b""), st.just(2 * data[begin:end]), CHUNKS))
        data = data[:begin] + middle + data[end:]
    return data


@st.composite
def changed(draw: Draw, seeds: list[Any]) -> Any:
    """A real file's data with values exchanged, keys renamed and entries dropped."""
    tree = copy.deepcopy(draw(st.sampled_from(seeds)))
    for _ in range(draw(st.integers(1, 3))):
        place = tree
        while isinstance(place, dict | list) and place:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            key = draw(st.sampled_from(keys))
            below = place[key]
            if isinstance(below, dict | list) and below and draw(st.booleans()):
                place = below
                continue
            what = draw(st.sampled_from(["change", "change", "drop", "add"]))
            if what == "change":
                place[key] = copy.deepcopy(draw(VALUES))  # it may be changed in turn
            elif what == "drop":
                del place[key]
            elif isinstance(place, dict):
                place[draw(st.text(max_size=8))] = copy.deepcopy(draw(VALUES))
            else:
                place.append(copy.deepcopy(draw(VALUES)))
            break
    return tree
