"""An executed report notebook → one HTML file that asks no other host for anything."""

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path

import nbformat
import yaml
from bs4 import BeautifulSoup
from bs4.filter import SoupStrainer
from markupsafe import Markup
from nbconvert import HTMLExporter

from reproduce.outside.rundir import RunDir
from reproduce.outside.stored import write_atomic
from reproduce.pages import lineage_table
from reproduce.profile import Profile

_TEMPLATES = Path(__file__).parents[1] / "templates"
_REPORT = _TEMPLATES / "report"


def render(run: RunDir, notebook: Path) -> Path:
    """Render ``notebook`` to the run directory's ``report.html`` and return its path.

    Every bound value of the page is listed at its end, and in the run's ``tables/lineage.csv``.
    """
    book = nbformat.read(notebook, as_version=4)
    exporter = HTMLExporter(
        template_name="report",
        template_file="index.html.j2",
        extra_template_basedirs=[str(_TEMPLATES)],
    )
    script = (_REPORT / "report.js").read_text("utf-8")
    about = {
        "title": f"Transformers modeling backend against native vLLM: {run.manifest.run_id}",
        "css": (_REPORT / "report.css").read_text("utf-8"),
        "script": script,
        "script_digest": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        "run_id": run.manifest.run_id,
        "profile": run.manifest.profile,
    }
    html, _ = exporter.from_notebook_node(book, resources={"report": about})
    page, entries = lineage_table.gathered(html)
    page = with_contents(with_lineage(page, entries, names(run.profile)))
    path = run.root / "report.html"
    write_atomic(path, page.encode())
    write_atomic(run.derived("tables") / lineage_table.NAME, lineage_table.as_csv(entries))
    return path


def names(profile: Profile) -> list[str]:
    """What may contain digits without being a number: a short list, and the profile's own names."""
    listed: list[str] = yaml.safe_load((_REPORT / "names.yaml").read_text("utf-8"))
    return [*listed, *profile.arms, *(rung.name for rung in profile.ladder)]


def with_lineage(page: str, entries: Sequence[lineage_table.Entry], known: Sequence[str]) -> str:
    """Put the table of lineage where the page asks for it, and say what has none."""
    bare = lineage_table.unbound(page, known)
    items = Markup("").join(Markup("<li><code>{}</code></li>").format(text) for text in bare)
    told = Markup("<p>Numbers without a source:</p><ul>{}</ul>").format(items) if bare else ""
    table = Markup("{}<details><summary>Every number, with its files</summary>{}</details>").format(
        told, lineage_table.table(entries)
    )
    return page.replace("<!--lineage-->", table, 1)


def with_contents(html: str) -> str:
    """Put a list of the page's second-level headings where the page asks for it."""
    headings = BeautifulSoup(html, "html.parser", parse_only=SoupStrainer("h2", id=True))
    items = Markup("").join(
        Markup('<li><a href="#{}">{}</a></li>').format(h["id"], h.get_text(strip=True).rstrip("¶"))
        for h in headings.find_all("h2")
    )
    return html.replace("<!--contents-->", Markup("<ul>{}</ul>").format(items), 1)
