"""Text from files: what is plain data, and what a terminal may show of it."""

import io
from pathlib import Path

import pytest
import yaml
from rich.table import Table

from reproduce.errors import DataError
from reproduce.outside import terminal
from reproduce.outside.provenance import REPO
from reproduce.text import plain
from reproduce.text.printable import printable


def test_stored_files_read_as_any_reader_reads_them() -> None:
    for path in [*REPO.glob("reproduce/profiles/*.yaml"), REPO / "data/published/profile.yaml"]:
        assert plain.from_yaml(path.read_bytes()) == yaml.safe_load(path.read_text())
    assert plain.from_json(b'\xef\xbb\xbf{"a": [1, NaN, "\\u00e9\\ud83d\\ude00"]}')["a"][2] == "é😀"
    assert plain.from_json_sequence(b'{"a": 1}\n[2]\r\n') == [{"a": 1}, [2]]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b'{"a": 1, "b": 2, "a": 3}', "the key 'a' is given twice"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a": "\\ud800"}', "surrogates not allowed"),
        (b"1" * 5000, "limit"),
        (b"\xff\xfe", "not text"),
        (b"", "found none"),
        (b"1 2", "found more"),
        (b'{"a": 1', "Expecting"),
    ],
)
def test_what_is_no_plain_json(data: bytes, words: str) -> None:
    with pytest.raises(plain.NotPlainError, match=words):
        plain.from_json(data)


LAUGHS = "a: &a [x, x]\n" + "".join(f"{n}: &{n} [*a, *a]\n" for n in "bcdefghijk")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (LAUGHS, r"\*a: write the value out"),
        ("a: &a [*a]", "anchors are not read"),
        ("a: 1\nb: 2\na: 3", "the key 'a' is given twice"),
        ("[" * 5000, "nested too deeply"),
        ("a: " + "9" * 5000, "limit"),
        ("a: 0x" + "f" * 20, "64 bits"),
        ("a: 2026-99-99", "month"),
        ("a: !!int ''", "index"),
        ("a: !!timestamp x", "attribute"),
        ("a: !!python/object/apply:os.system ['true']", "could not determine a constructor"),
        ("a: \x00", "special characters"),
    ],
)
def test_what_is_no_plain_yaml(text: str, words: str) -> None:
    with pytest.raises(plain.NotPlainError, match=words) as caught:
        plain.from_yaml(text)
    assert "\n" not in str(caught.value)


ACTING = "\x1b]0;title\x07[red]a[/red] [/b] \x9b31m \u202etxt\ud800 :smile:"
SHOWN = "\\x1b]0;title\\x07[red]a[/red] [/b] \\x9b31m \\u202etxt\\ud800 :smile:"


def test_a_terminal_shows_what_would_act_on_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert printable(ACTING) == SHOWN
    assert printable("a\tb\nc – é × 😀") == "a\tb\nc – é × 😀"
    assert str(DataError(f"{ACTING}\nb")) == f"{SHOWN} b"
    terminal.say(ACTING)
    assert capsys.readouterr().out == f"{SHOWN}\n"


def test_a_table_shows_its_cells_and_headings_as_they_are() -> None:
    console = terminal.PlainConsole()
    console.file, console.width = io.StringIO(), 300
    table = Table(box=None, title=ACTING)
    table.add_column(ACTING)
    table.add_row(ACTING)
    console.print(table)
    assert [line.strip() for line in console.file.getvalue().splitlines()] == [SHOWN] * 3


def test_a_file_that_is_no_plain_data_is_named(tmp_path: Path) -> None:
    from reproduce.outside.stored import read_json

    (tmp_path / "x.json").write_bytes(b"[" * 100_000)
    with pytest.raises(DataError, match=r"x\.json: not readable as JSON \(nested too deeply\)"):
        read_json(tmp_path / "x.json")
