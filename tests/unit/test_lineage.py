"""Numerals are found wherever they hide, and none is printed without a source."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reproduce.errors import DataError
from reproduce.pages.lineage import (
    Bound,
    Source,
    moved,
    numerals,
    printing,
    rounded,
    unnamed,
    worded,
)
from reproduce.pages.rendering import render

FILE = Source("data/a.json", "a" * 64, "/x")
NAMES = ["H100", "DeepSeek-V3", "80 % rule"]

words = st.text(st.characters(exclude_categories=("N", "Cs", "Co", "Cc")), max_size=20).filter(
    lambda text: not any(letter.isnumeric() for letter in text)
)
numbers = st.one_of(
    st.integers(0, 10**9).map(lambda n: f"{n:,}"),
    st.integers(0, 10**9).map(str),
    st.floats(0, 1e6, allow_nan=False).map(lambda x: f"{x:,.2f}"),
    st.characters(categories=("Nd", "Nl", "No")).map(lambda letter: letter * 2),
)


def bound(text: str = "99.6", name: str = "n") -> Bound:
    return worded(name, text, [FILE], "as stored")


def filled(template: str, **context: object) -> str:
    return render(template, context, NAMES, "t.j2").text


@given(before=words, number=numbers, after=words)
def test_a_number_is_found_among_any_words(before: str, number: str, after: str) -> None:
    text = f"{before} {number} {after}"
    found = list(numerals(text))
    covered = {place for numeral in found for place in range(numeral.start, numeral.end)}
    digits = {place for place, letter in enumerate(text) if unicodedata.category(letter)[0] == "N"}
    assert digits
    assert digits <= covered
    if number.isascii():
        assert [numeral.text for numeral in found] == [number]


@given(words)
def test_words_alone_hold_no_number(text: str) -> None:
    assert list(numerals(text)) == []


@given(before=words, number=numbers, after=words)
def test_a_typed_number_fails_and_a_bound_one_does_not(
    before: str, number: str, after: str
) -> None:
    before, after = (text.replace("{", "").replace("}", "") for text in (before, after))
    with pytest.raises(DataError, match=r"t\.j2, line 2: .* has no source"):
        filled(f"\n{before} {number} {after}\n")
    assert number in filled(f"\n{before} {{{{ x }}}} {after}\n", x=bound(number))
    with pytest.raises(DataError, match="has no source"):
        filled("\n{{ x }}\n", x=f"{before} {number}")


@pytest.mark.parametrize(
    ("template", "line"),
    [
        ("a\n{# 5 #}\nb 5\n", 3),
        ("a\n{% if true %}\nx\n{% endif %}\n\nb 5\n", 6),
        ("{{ x }}\n\n{{ 7 }}\n", 3),
        ("\n{{ '7' }}\n", 2),
        ("{% set y = 0.5 %}\n", 1),
        ('<img alt="\n\n3 bars">', 3),
    ],
)
def test_the_template_line_of_a_typed_number_is_named(template: str, line: int) -> None:
    with pytest.raises(DataError, match=rf"^t\.j2, line {line}: "):
        filled(template, x=bound())


def test_numbers_out_of_the_data_are_refused_unless_bound() -> None:
    with pytest.raises(DataError, match="'4' on line 3 of the text"):
        filled("a\n\n{{ x }}\n", x="and 4")
    with pytest.raises(DataError, match="'3'"):
        filled("{{ xs|length }}\n", xs="abc")
    with pytest.raises(DataError, match="'12' on line 1 of the text has no source, or two"):
        filled("{{ x }}{{ y }}\n", x=bound("1"), y=bound("2", "m"))


def test_a_name_covers_its_own_digits_only() -> None:
    assert filled("{{ x }}×H100\n", x=bound("16")) == "16×H100\n"
    for text in ("H1000", "H100-80GB", "XH100", "H100 100", "an 80 % share"):
        assert list(unnamed(text, NAMES)), text
    assert not list(unnamed("DeepSeek-V3 on H100: the 80 % rule", NAMES))


def test_values_are_escaped_for_where_they_stand_and_stay_bound() -> None:
    text = filled('|{{ x }}|<img alt="{{ x|attribute }}">', x=bound('a|b "5" <c>\n![d](e)'))
    assert text == (
        '|a\\|b "5" &lt;c&gt; !\\[d\\](e)|<img alt="a|b &quot;5&quot; &lt;c&gt;\n![d](e)">'
    )
    assert filled("`{{ x|code }}`", x=bound("5 `<i>")) == "`5 '<i>`"


def test_words_without_a_source_are_escaped_as_well() -> None:
    assert filled("{% macro m(x) %}<b>{{ x }}</b>{% endmacro %}{{ m(x) }}", x="<i>*") == (
        "<b>&lt;i&gt;\\*</b>"
    )


def test_one_line_and_one_entry_per_value() -> None:
    found = render("a\n{{ x }}\n{{ y }} {{ x }}\n", {"x": bound(), "y": bound("2", "m")}, [], "t")
    assert [(one.id, line) for one, line in found.lines.items()] == [("n", 2), ("m", 3)]


def test_two_values_may_not_share_a_name() -> None:
    with pytest.raises(DataError, match="two different values are called 'n'"):
        filled("{{ x }} {{ y }}", x=bound("1"), y=bound("2"))


def test_a_value_needs_a_source_and_no_fence() -> None:
    with pytest.raises(DataError, match="needs a source"):
        worded("n", "1", [], "as stored")
    with pytest.raises(DataError, match="private use"):
        bound("\ue0001")


def test_damaged_templates_name_the_place() -> None:
    with pytest.raises(DataError, match=r"t\.j2, line 2: "):
        filled("\n{% if %}\n")
    with pytest.raises(DataError, match="'y' is undefined"):
        filled("{{ y }}")


def test_rounding_and_missing_values() -> None:
    assert rounded("n", 1234.565, 1, [FILE], "mean").printed == "1,234.6"
    assert rounded("n", float("nan"), 1, [FILE], "mean").printed == "–"


def test_printing_finds_a_number_as_it_is_printed() -> None:
    bounds = [bound("99.6 %", "a"), bound("99.60", "b"), bound("199.6", "c"), bound("2,378", "d")]
    assert [one.id for one in printing("99.6", bounds)] == ["a"]
    assert [one.id for one in printing("99.60 %", bounds)] == ["b"]
    assert [one.id for one in printing("2378", bounds)] == ["d"]
    assert printing("6", bounds) == []


def test_moved_names_what_changed_what_came_and_what_went() -> None:
    assert moved({"a": "1", "b": "2", "c": "3"}, {"a": "1", "b": "5", "d": "4"}) == [
        ("b", "2", "5"),
        ("d", None, "4"),
        ("c", "3", None),
    ]


def test_a_digest_covers_every_file() -> None:
    other = Source("data/b.json", "b" * 64, "/x")
    assert bound().digest == FILE.sha256
    both = [Bound("n", "1", "1", (FILE, one), "sum").digest for one in (FILE, other)]
    assert both[0] == FILE.sha256 != both[1]
