"""docs/faults.md: every row names tests that exist."""

import ast
import re
from functools import cache

import pytest

from benchmarks.fault_handling import HANDLING, Handling
from tests.conftest import REPO

TEXT = (REPO / "docs" / "faults.md").read_text()
COLUMNS = ["what happens", "what is kept", "what the user reads", "how it resumes", "tests"]
NODE = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def rows() -> list[list[str]]:
    lines = [line for line in TEXT.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


@cache
def names_in(file: str) -> set[str]:
    tree = ast.parse((REPO / file).read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_it_is_one_table() -> None:
    heading, rule, *faults = rows()
    assert heading == COLUMNS
    assert all(set(cell) <= set("-:") for cell in rule)
    assert len(faults) >= 20
    assert len({cells[0] for cells in faults}) == len(faults)


@pytest.mark.parametrize("cells", rows()[2:], ids=lambda cells: cells[0][:40])
def test_a_row_is_complete_and_its_tests_exist(cells: list[str]) -> None:
    assert len(cells) == len(COLUMNS)
    assert all(cells)
    named = NODE.findall(cells[-1])
    assert named
    assert NODE.sub("", cells[-1]).strip(" ,") == ""
    for file, test in named:
        assert test.startswith("test_")
        assert test in names_in(file), f"{file}: no {test}"


def test_the_handling_of_every_row_can_be_taken_away() -> None:
    assert list(HANDLING) == [cells[0] for cells in rows()[2:]]


@pytest.mark.parametrize(("row", "handling"), HANDLING.items(), ids=lambda x: str(x)[:40])
def test_what_is_taken_away_is_there(row: str, handling: Handling) -> None:
    assert (REPO / handling.file).read_text().count(handling.code) == 1
    (named,) = [cells[-1] for cells in rows()[2:] if cells[0] == row]
    assert f"`{handling.test}`" in named
