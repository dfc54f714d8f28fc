"""An executed report notebook → one HTML file that asks no other host for anything."""

from pathlib import Path

import nbformat
from bs4 import BeautifulSoup
from markupsafe import Markup
from nbconvert import HTMLExporter

from reproduce.rundir import RunDir, write_atomic

_TEMPLATES = Path(__file__).parent / "templates"


def render(run: RunDir, notebook: Path) -> Path:
    """Render ``notebook`` to the run directory's ``report.html`` and return its path."""
    book = nbformat.read(notebook, as_version=4)
    exporter = HTMLExporter(
        template_name="report",
        template_file="index.html.j2",
        extra_template_basedirs=[str(_TEMPLATES)],
    )
    about = {
        "title": f"Transformers modeling backend against native vLLM: {run.manifest.run_id}",
        "css": (_TEMPLATES / "report" / "report.css").read_text(),
        "run_id": run.manifest.run_id,
        "profile": run.manifest.profile,
    }
    html, _ = exporter.from_notebook_node(book, resources={"report": about})
    path = run.root / "report.html"
    write_atomic(path, with_contents(html).encode())
    return path


def with_contents(html: str) -> str:
    """Put a list of the page's second-level headings where the page asks for it."""
    headings = BeautifulSoup(html, "html.parser").find_all("h2", id=True)
    items = Markup("").join(
        Markup('<li><a href="#{}">{}</a></li>').format(h["id"], h.get_text(strip=True).rstrip("¶"))
        for h in headings
    )
    return html.replace("<!--contents-->", Markup("<ul>{}</ul>").format(items), 1)
