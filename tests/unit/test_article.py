"""article.md says what the data say, and every number of it leads back to a file."""

import csv
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from reproduce.article import build, raw, reference
from reproduce.outside import profile_store
from reproduce.outside.provenance import REPO
from reproduce.outside.rundir import RunDir
from reproduce.outside.stored import sha256
from reproduce.pages.lineage import numerals
from reproduce.pages.rendering import Rendered
from reproduce.reading import judgement
from tests.conftest import command_line
from tests.synthetic import make_run

NAMES = yaml.safe_load((REPO / "reproduce/templates/names.yaml").read_text())
GENERATED = ("article.md", "lineage.csv", "figures")

FLIP_EVERY_FILE = """
from reproduce.article import build, raw
from reproduce.outside.provenance import REPO
from reproduce.outside.rundir import RunDir
listed = [f"{kept}/{name}" for kept in raw.KEPT
          for name in RunDir.open(REPO / kept).manifest.files]
original = {REPO / name: (REPO / name).read_bytes() for name in listed}
for path, data in original.items():
    place = next(i for i, byte in enumerate(data) if chr(byte).isdigit())
    path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
assert sorted(build.changed_files()) == sorted(listed)
for path, data in original.items():
    path.write_bytes(data)
assert build.changed_files() == []
(REPO / raw.REFERENCE / "raw" / "unlisted.json").write_text("1")
assert build.changed_files() == [f"{raw.REFERENCE}/raw/unlisted.json"]
print(len(listed))
"""


@pytest.fixture(scope="module")
def article() -> Rendered:
    return build.article()


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What a reader has who has just cloned the repository, as far as the article needs it."""
    for name in ("reproduce", "data", *GENERATED):
        source = REPO / name
        copy = shutil.copytree if source.is_dir() else shutil.copy
        copy(source, tmp_path / name)
    return tmp_path


def run(clone: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=clone, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def reproduce(clone: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run(clone, "-m", "reproduce", *arguments)


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_the_committed_files_are_what_the_data_give() -> None:
    found = build.check()
    assert (found.files, found.moved, found.diff) == ([], [], "")
    assert build.changed_files() == []


def test_every_numeral_is_bound_or_part_of_one_of_few_names(article: Rendered) -> None:
    assert len(NAMES) < 40
    rest = article.text
    known = {*NAMES, *(bound.printed for bound in article.bounds)}
    for words in sorted(known, key=len, reverse=True):
        rest = rest.replace(words, " ").replace(words.replace('"', "&quot;"), " ")
    assert list(numerals(rest)) == []
    assert len(list(numerals(article.text))) > 500
    for name in NAMES:
        assert name in article.text, f"{name} is listed and not used"


def test_every_source_is_a_file_with_that_digest_and_that_place(article: Rendered) -> None:
    for bound in article.bounds:
        for source in bound.sources:
            path = REPO / source.path
            assert source.sha256 == sha256(path)
            if path.suffix in (".json", ".yaml"):
                raw.resolve(source.path, source.pointer)
            if bound.reduction == "as stored" and isinstance(bound.value, int | float):
                assert raw.resolve(source.path, source.pointer) == bound.value
                assert float(bound.printed.replace(",", "")) == bound.value


def test_the_verdict_stands_in_its_own_words(article: Rendered) -> None:
    verdict = judgement.verdict_of(RunDir.open(REPO / raw.REFERENCE))
    assert f"**Verdict of our run: {verdict.label.value}.** {verdict.headline}" in article.text
    for limit in verdict.limits:
        assert f"\n- {limit}\n" in article.text


def test_the_article_has_front_matter_and_figures_for_both_themes(article: Rendered) -> None:
    front = yaml.safe_load(article.text.split("---\n")[1])
    assert set(front) <= {"subtitle", "description", "date", "license"}
    assert article.text.split("---\n")[2].startswith("\n# Does vLLM's Transformers")
    shown = re.findall(r'(?:srcset|src)="([^"]+)"', article.text)
    assert len(shown) == 6
    assert all((REPO / name).is_file() for name in shown)
    alts = re.findall(r'<img src="[^"]+" alt="([^"]+)">', article.text)
    assert len(alts) == 3
    assert all(len(list(numerals(alt))) > 5 for alt in alts)


def test_tables_are_whole(article: Rendered) -> None:
    for block in re.findall(r"(?:^\|.*\n)+", article.text, re.MULTILINE):
        cells = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
        assert len(cells) == 1, block[:200]


def test_the_list_of_numbers_has_one_row_per_bound_value(article: Rendered) -> None:
    with (REPO / "lineage.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == [bound.id for bound in article.bounds]
    assert [row["printed"] for row in rows] == [bound.printed for bound in article.bounds]


def test_one_digit_fails_the_check_and_names_what_moved(clone: Path) -> None:
    edit(clone / "data/published/raw/table.json", '"941"', '"942"')
    edit(clone / "data/published/memory_figures.json", "68.4", "68.5")
    edit(clone / "data/gpus.yaml", "total_gib: 79.2", "total_gib: 79.3")
    edit(clone / "data/models/kimi-k2.json", "163840", "163841")
    edit(clone / "figures/memory_light.svg", "<svg", "<svg ")
    done = reproduce(clone, "article", "--check")
    assert done.returncode == 1, done.stderr
    for words in (
        "changed: data/published/raw/table.json is not what its manifest says\n",
        "moved: data/published/raw/table.json#/rows/1/native/total_tok_s: 941 -> 942\n",
        "moved: published.c16.open: 98.83 to 99.04 -> 98.73 to 98.94\n",
        "moved: data/published/memory_figures.json#/figures/0/value: 68.4 -> 68.5\n",
        "moved: memory.DP16 × EP16.h100-80gb.cache: 5.8 to 8.8 -> ",
        "moved: sha256 of data/gpus.yaml: ",
        "moved: sha256 of data/models/kimi-k2.json: ",
        "differs: figures/memory_light.svg\n",
        "\n-| concurrency 16, 1,024 in / 2,048 out | 941 |",
        "\n+| concurrency 16, 1,024 in / 2,048 out | 942 |",
    ):
        assert words in done.stdout, words


def test_a_file_that_no_longer_makes_sense_fails_the_check_too(clone: Path) -> None:
    name = "data/published/raw/native/launch-01/unbounded/rep-01.json"
    edit(clone / name, '"completed": 512', '"completed": 511')
    done = reproduce(clone, "article", "--check")
    assert done.returncode == 1
    assert done.stdout == f"changed: {name} is not what its manifest says\n"
    assert "511 of 512 requests completed" in done.stderr


def test_a_digit_of_any_raw_file_is_noticed(clone: Path) -> None:
    done = run(clone, "-c", FLIP_EVERY_FILE)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 10


def test_nothing_is_written_from_raw_files_that_were_changed(clone: Path) -> None:
    edit(clone / "data/published/raw/table.json", '"941"', '"942"')
    before = (clone / "article.md").read_bytes()
    done = reproduce(clone, "article")
    assert done.returncode == 2
    assert "data/published/raw/table.json: not what the manifest says" in done.stderr
    assert (clone / "article.md").read_bytes() == before


@pytest.fixture
def elsewhere(clone: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The clone, as the repository of this process."""
    for module in (build, raw, reference):
        monkeypatch.setattr(module, "REPO", clone)
    shutil.rmtree(clone / raw.REFERENCE)
    return clone


@pytest.mark.parametrize(("launches", "speed", "label"), [
    (5, 1.0, "equivalent"), (5, 0.8, "different"), (1, 0.97, "inconclusive"),
])  # fmt: skip
def test_another_run_gives_another_article(
    elsewhere: Path, launches: int, speed: float, label: str
) -> None:
    profile = profile_store.load("cpu", {"launches": launches})
    made = make_run(elsewhere / raw.REFERENCE, profile, {"transformers": speed})
    text = build.article().text
    headline = judgement.verdict_of(made).headline
    assert f"**Verdict of our run: {label}.** {headline}" in text
    if launches > 1:
        assert f"\nreproduce run --profile cpu -p launches={launches}\n" in text


def test_what_is_written_passes_the_check_until_a_hand_is_on_it(elsewhere: Path) -> None:
    make_run(elsewhere / raw.REFERENCE, profile_store.load("cpu", {"repeats": 2}))
    stale = elsewhere / "figures" / "old_light.svg"
    stale.write_text("<svg/>")
    assert "article.md" in build.write()
    assert not stale.exists()
    assert build.check() == build.Difference(moved=[], files=[], diff="")

    edit(elsewhere / "article.md", "99.6 % of the native", "99.7 % of the native")
    stale.write_text("<svg/>")
    found = build.check()
    assert (found.files, found.moved) == (["article.md", "figures/old_light.svg"], [])
    assert "\n-2, expert parallel 8) gave 99.7 %" in found.diff


def test_trace_leads_to_file_digest_and_place() -> None:
    done = command_line("trace", "99.6")
    assert done.returncode == 0, done.stderr
    digest = json.loads((REPO / raw.PUBLISHED / "manifest.json").read_text())["files"]
    assert re.search(
        r"from +data/published/raw/table\.json  "
        + digest["raw/table.json"][:12]
        + r"  /means/percent_of_native\n  reduction  as stored\n  unit +%\n  rounding   none",
        done.stdout,
    )
    line = int(re.match(r"article\.md, line (\d+)", done.stdout)[1])  # type: ignore[index]
    assert "99.6" in (REPO / "article.md").read_text().splitlines()[line - 1]


def test_trace_of_a_number_that_is_not_there() -> None:
    done = command_line("trace", "12345.678")
    assert done.returncode == 2
    assert (
        done.stderr == "error: '12345.678' is not in article.md; lineage.csv lists every number\n"
    )
