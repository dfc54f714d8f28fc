"""The report on paper."""

import os
import re
from pathlib import Path

import pytest

from reproduce.errors import ConfigError
from reproduce.outside import pdf, profile_store
from reproduce.outside.crate import NAME
from tests.conftest import command_line
from tests.synthetic import make_run

pytestmark = pytest.mark.browser


def test_a_page_becomes_pages_without_a_path_of_the_machine(tmp_path: Path) -> None:
    page = tmp_path / "long.html"
    page.write_text("<title>Long</title>" + "<p>paragraph</p>" * 200)
    data = pdf.render(page).read_bytes()
    assert data.startswith(b"%PDF-")
    assert len(re.findall(rb"/Type\s*/Page\b", data)) > 1
    assert bytes(tmp_path) not in data


def test_the_report_is_printed_and_listed_in_the_archive(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", profile_store.load("smoke"))
    done = command_line("report", str(run.root), "--pdf")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-2:] == [str(run.root / f"report.{k}") for k in ("html", "pdf")]
    assert (run.root / "report.pdf").read_bytes().startswith(b"%PDF-")
    assert '"@id": "report.pdf"' in (run.root / NAME).read_text()


def test_without_a_browser_one_line_says_so_before_anything_is_done(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", profile_store.load("smoke"))
    done = command_line("report", str(run.root), "--pdf", PATH="/nowhere")
    assert done.returncode == 2
    assert done.stderr.startswith("error: --pdf: no Chromium or Chrome on PATH: install one")
    assert done.stderr.count("\n") == 1
    assert not (run.root / "report.html").exists()


def test_a_browser_that_prints_nothing_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "chromium"
    fake.write_text("#!/bin/sh\necho broken >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    (tmp_path / "page.html").write_text("<p>page</p>")
    with pytest.raises(ConfigError, match="chromium printed nothing: broken"):
        pdf.render(tmp_path / "page.html")
