"""Every number of a report leads back to files: three kinds of run, read as a reader sees them."""

import contextlib
import csv
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from bs4 import BeautifulSoup, NavigableString, Tag

from reproduce.outside import profile_store
from reproduce.outside.provenance import REPO
from reproduce.outside.rundir import RunDir
from reproduce.pages import display_claims, lineage_table
from reproduce.pages.lineage import numerals, unnamed
from reproduce.running import execution, pipeline, report
from reproduce.schemas import EngineFacts
from reproduce.verdicts import confounders
from tests.conftest import command_line
from tests.synthetic import make_run

NAMES = yaml.safe_load((REPO / "reproduce/templates/report/names.yaml").read_text())


def rendered(run: RunDir) -> RunDir:
    """The run with a report, made as `reproduce report` makes it, without the other notebooks."""
    (source,) = pipeline.NOTEBOOKS.glob(f"{pipeline.REPORT}.ipynb")
    with contextlib.chdir(run.root):
        execution.execute(run, source)
    report.render(run, run.derived("notebooks") / source.name)
    return run


@pytest.fixture(scope="module", params=["made up", "published", "reference"])
def reported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    root = tmp_path_factory.mktemp("runs")
    if request.param == "made up":
        profile = profile_store.load("cpu", {"launches": 2})
        return rendered(make_run(root / "run", profile, {"transformers": 0.97}, noise=0.02))
    if request.param == "published":
        return rendered(pipeline.create(profile_store.load("published"), root))
    shutil.copytree(REPO / "data" / "reference", root / "run")
    return rendered(RunDir.open(root / "run"))


@pytest.fixture
def page(reported: RunDir) -> str:
    return (reported.root / "report.html").read_text()


@pytest.fixture
def rows(reported: RunDir) -> list[dict[str, str]]:
    with (reported.root / "tables" / "lineage.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def bare(element: Tag) -> list[str]:
    """Texts outside bound elements, code, listings and the table of lineage itself."""
    if element.name in ("script", "style", "code", "pre"):
        return []
    if element.get("data-id") is not None or element.get("id") == "lineage":
        return []
    texts = [str(element[key]) for key in ("alt", "title", "aria-label") if element.get(key)]
    for child in element.children:
        if isinstance(child, Tag):
            texts += bare(child)
        elif type(child) is NavigableString:
            texts.append(str(child))
    return texts


def unsourced(page: str, names: list[str]) -> list[str]:
    body = BeautifulSoup(page, "html.parser").body
    assert body is not None
    return [text for text in bare(body) if any(unnamed(text, names))]


def test_every_numeral_is_bound_or_part_of_one_of_few_names(reported: RunDir, page: str) -> None:
    assert len(NAMES) < 40
    names = report.names(reported.profile)
    assert unsourced(page, names) == lineage_table.unbound(page, names) == []
    assert "Numbers without a source" not in page


@pytest.mark.parametrize(
    "planted",
    [
        "<p>42 fish</p>",
        "<table><tr><td>4.2</td></tr></table>",
        "<table><caption>of ４２</caption></table>",
        '<img alt="7 bars" src="">',
        '<section aria-label="part 3"></section>',
        '<p><span data-id="x">1</span>2</p>',
        "<p><code>a</code> 5</p>",
        "<p>H1000</p>",
    ],
)
def test_a_planted_number_is_noticed(planted: str) -> None:
    page = f"<body><main>{planted}<!--lineage--></main></body>"
    assert len(unsourced(page, NAMES)) == len(lineage_table.unbound(page, NAMES)) == 1
    assert "Numbers without a source" in report.with_lineage(page, [], NAMES)


def test_what_needs_no_source() -> None:
    page = (
        '<head><title>7</title></head><body><p><span data-id="x">1</span> <code>v2</code> on H100'
        ' <br>bare</p><pre>3</pre><img alt="4" data-id="y"><section id="lineage">5</section></body>'
    )
    assert unsourced(page, NAMES) == lineage_table.unbound(page, NAMES) == []


def test_names_are_used_somewhere(page: str) -> None:
    body = BeautifulSoup(page, "html.parser").get_text()
    assert [name for name in NAMES if name not in body] == []


def test_the_table_lists_what_is_bound_and_nothing_else(
    page: str, rows: list[dict[str, str]]
) -> None:
    soup = BeautifulSoup(page, "html.parser")
    shown = {str(element["data-id"]): element for element in soup.select("[data-id]")}
    ids = [row["id"] for row in rows]
    assert len(ids) == len(set(ids)) > 200
    assert set(ids) == set(shown)
    listed = {row.get_text() for row in soup.select("#lineage tbody th code:only-child")}
    assert set(ids) <= listed
    for row in rows:
        element = shown[row["id"]]
        if element.name == "span":
            assert element.get_text() == row["printed"]
        assert element["tabindex"] == "0"
        for told in (row["reduction"], row["rounding"], *row["sources"].split("; ")):
            assert told in element["title"]
    assert sum(len(list(numerals(row["printed"]))) for row in rows) > 300


def test_digests_are_those_of_the_files_that_patterns_mean(
    reported: RunDir, rows: list[dict[str, str]], tmp_path: Path
) -> None:
    """As a reader would check them: with a shell, and the command that the page prints."""
    for child in reported.root.iterdir():
        (tmp_path / child.name).symlink_to(child)
    for name in ("data", "reproduce"):
        (tmp_path / name).symlink_to(REPO / name)
    groups = {row["sha256"]: patterns(row["sources"]) for row in rows}
    script = "".join(
        f"if [ $(ls {paths} | wc -l) = 1 ]; then sha256sum {paths}; else "
        f"sha256sum {paths} | LC_ALL=C sort -k 2 | sha256sum; fi\n"
        for paths in groups.values()
    )
    done = subprocess.run(
        ["/bin/bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert [line.split()[0] for line in done.stdout.splitlines()] == list(groups)


def patterns(sources: str) -> str:
    return " ".join(dict.fromkeys(place.partition("#")[0] for place in sources.split("; ")))


def test_every_pointer_leads_somewhere(reported: RunDir, rows: list[dict[str, str]]) -> None:
    places = {place for row in rows for place in row["sources"].split("; ")}
    assert len(places) > 20
    script = "".join(f"printf '%s\\n' {place.partition('#')[0]} | head -n 1\n" for place in places)
    firsts = subprocess.run(
        ["/bin/bash", "-c", script], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    read: dict[Path, Any] = {}
    for place, first in zip(places, firsts, strict=True):
        pointer, path = place.partition("#")[2], Path(first)
        path = (REPO if path.parts[0] in ("data", "reproduce") else reported.root) / path
        assert path.is_file()
        if path.suffix in (".json", ".yaml"):
            if path not in read:
                load = json.loads if path.suffix == ".json" else yaml.safe_load
                read[path] = load(path.read_text())
            resolved(read[path], pointer)
        elif path.name.startswith("engine.log"):
            assert pointer in {*EngineFacts.model_fields, "facts"}


def resolved(found: Any, pointer: str) -> Any:
    for key in pointer.split("/")[1:]:
        name = key.replace("~1", "/").replace("~0", "~")
        found = found[int(name) if isinstance(found, list) else name]
    return found


def test_what_is_printed_as_stored_is_what_is_stored(
    reported: RunDir, rows: list[dict[str, str]]
) -> None:
    manifest = json.loads((reported.root / "manifest.json").read_text())
    stored = [r for r in rows if r["id"].startswith("manifest/") and r["reduction"] == "as stored"]
    assert stored
    for row in stored:
        assert row["printed"] == str(resolved(manifest, row["sources"].partition("#")[2]))


def test_every_rule_on_confounders_has_its_files() -> None:
    rules = {*display_claims._WITNESSES, "changed raw files"}  # of which the manifest tells
    assert rules == set(confounders.RULES)


def test_trace_finds_a_number_of_the_report(reported: RunDir, rows: list[dict[str, str]]) -> None:
    row = next(row for row in rows if row["id"].endswith("total_tok_s.percent"))
    done = command_line("trace", row["printed"], "--run", str(reported.root))
    assert done.returncode == 0, done.stderr
    block = next(b for b in done.stdout.split("\n\n") if f"id         {row['id']}\n" in b)
    for told in (row["sources"], row["sha256"], row["reduction"], row["unit"], row["rounding"]):
        assert told in block
    done = command_line("trace", "12345.678", "--run", str(reported.root))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "'12345.678' is not in " in done.stderr


def test_trace_asks_for_a_report(tmp_path: Path) -> None:
    done = command_line("trace", "1", "--run", str(tmp_path))
    assert done.returncode == 2
    assert f"lineage.csv: missing: `reproduce report {tmp_path}` writes it" in done.stderr
