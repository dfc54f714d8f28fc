"""Whatever a file holds, reading it gives data or one of the package's own errors.

Inputs are real files, changed in one to three places, and bytes of no sense at all. More of them,
in many runs of other seeds, because a single long one spends its time on remembering what it tried:
``FUZZ_EXAMPLES=1000 pytest tests/unit/test_fuzz.py --hypothesis-show-statistics
--hypothesis-seed=N``.
"""

import contextlib
import functools
import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reproduce.errors import ReproduceError
from reproduce.evidence.engine_log import missing_fusions, parse_log, scope_of_claim
from reproduce.evidence.last_words import last_words
from reproduce.outside import profile_store
from reproduce.outside.rundir import RunDir
from reproduce.outside.stored import parse_json
from reproduce.plan import vllm_contract
from reproduce.reading import analysis, judgement, result_files
from reproduce.text import plain
from reproduce.text.printable import printable
from reproduce.verdicts.audit import audit
from tests.conftest import REPO
from tests.mutations import CHUNKS, VALUES, Draw, changed, damaged
from tests.synthetic import engine_log, make_run

ASKED = os.environ.get("FUZZ_EXAMPLES")
EXAMPLES = int(ASKED or 150)
fuzzed = settings(
    max_examples=EXAMPLES, deadline=None, database=None, derandomize=ASKED is None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
rarely = settings(fuzzed, max_examples=max(20, EXAMPLES // 20))

SMOKE = profile_store.load("smoke", {"repeats": 1})


@contextlib.contextmanager
def own_errors_only() -> Iterator[None]:
    try:
        yield
    except ReproduceError as error:
        told = str(error)
    else:
        return
    assert "\n" not in told
    assert printable(told) == told


def short(data: Any) -> Any:
    """Real data with its lists cut to what shows their shape."""
    if isinstance(data, list):
        return [short(one) for one in data[:3]]
    return {key: short(value) for key, value in data.items()} if isinstance(data, dict) else data


def stored(pattern: str, root: Path = REPO / "data") -> list[Path]:
    return sorted(root.rglob(pattern))[:8]


@functools.cache
def logs() -> list[bytes]:
    real = [path.read_bytes() for path in stored("engine*.log")]
    real += [gzip.decompress(path.read_bytes()) for path in stored("engine*.log.gz")]
    real += [engine_log(arm).encode() for arm in ("native", "transformers")]
    return [b"\n".join(log.splitlines()[:60]) for log in real]


@functools.cache
def results() -> list[Any]:
    paths = [path for path in stored("rep-*.json") if ".record." not in path.name]
    return [short(json.loads(path.read_bytes())) for path in paths]


@functools.cache
def profiles() -> list[bytes]:
    return [path.read_bytes() for path in stored("*.yaml", profile_store.BUILT_IN)]


@given(st.one_of(damaged(logs()), st.binary(max_size=300)))
@fuzzed
def test_logs(data: bytes) -> None:
    facts = parse_log(data.decode(errors="replace"))
    with own_errors_only():
        missing_fusions(facts, facts.architecture)
        scope_of_claim(facts, facts)
        type(facts).model_validate_json(facts.model_dump_json())
    assert "\n" not in last_words(data.decode(errors="replace"))


def read_result(data: bytes) -> None:
    with own_errors_only():
        read = parse_json(data, "x.json")
        audit(read, input_len=8, output_len=4)
        result = vllm_contract.parse_result(read, "x.json")
        reasons = vllm_contract.invalid_reasons(read, result, SMOKE.ladder[0])
        printable("; ".join(reasons)).encode()


@given(changed(results()))
@fuzzed
def test_results_with_other_values(tree: Any) -> None:
    read_result(json.dumps(tree).encode())


@given(st.one_of(damaged([json.dumps(r).encode() for r in results()]), st.binary(max_size=200)))
@fuzzed
def test_results_with_other_bytes(data: bytes) -> None:
    read_result(data)


@given(damaged([json.dumps(r).encode() + b"\n" + json.dumps(r).encode() for r in results()]))
@fuzzed
def test_result_files(folder: Path, data: bytes) -> None:
    path = folder / "results.json"
    path.write_bytes(data)
    with own_errors_only():
        for one in result_files.read_results(path):
            vllm_contract.parse_result(one.data, one.where)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@given(st.one_of(damaged(profiles()), st.binary(max_size=200)))
@fuzzed
def test_profiles_with_other_bytes(folder: Path, data: bytes) -> None:
    path = folder / "mine.yaml"
    path.write_bytes(data)
    with own_errors_only():
        profile_store.load(str(path))


@given(changed([SMOKE.model_dump(mode="json"), *map(yaml.safe_load, profiles())]))
@fuzzed
def test_profiles_with_other_values(folder: Path, tree: Any) -> None:
    path = folder / "other.yaml"
    with contextlib.suppress(ValueError):  # text that no file can hold
        path.write_text(yaml.safe_dump(tree))
    with own_errors_only():
        profile_store.load(str(path))


KEYS = st.sampled_from(["repeats", "model.id", "server.flags.seed", "arms.native.env.OMP", "ladder",
                        "server.env", "arms", "topology.tp", "client.flags", "slurm.hours",
                        ""])  # fmt: skip


@given(st.dictionaries(KEYS | st.text(max_size=9), VALUES, max_size=3), st.text(max_size=20))
@fuzzed
def test_overrides(overrides: dict[str, Any], text: str) -> None:
    with own_errors_only():
        profile_store.load("cpu", overrides)
    with own_errors_only():
        profile_store.load(text)
    with own_errors_only():
        profile_store.load("cpu", profile_store.parse_overrides([f"repeats={text}", text]))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    return make_run(tmp_path_factory.mktemp("run") / "run", SMOKE, detailed=True)


def read_all(root: Path) -> None:
    with own_errors_only():
        opened = RunDir.open(root)
        for read in (opened.records, opened.launch_facts, opened.commands, opened.failures,
                     opened.events, opened.reference, opened.changed_files):  # fmt: skip
            with own_errors_only():
                read()
        with own_errors_only():
            opened.answers("native")


FILES = st.sampled_from([
    "manifest.json", "profile.yaml", "raw/native/launch-01/c1/rep-01.record.json",
    "raw/native/launch-01/start-01/command.json", "raw/native/launch-01/start-01/agreement.json",
    "raw/native/launch-01/c1/rep-01.json", "raw/native/launch-01/start-01/engine.log",
])  # fmt: skip


@contextlib.contextmanager
def exchanged(path: Path, data: bytes) -> Iterator[None]:
    """A file with other bytes, for a while."""
    before = path.read_bytes()
    path.write_bytes(data)
    try:
        yield
    finally:
        path.write_bytes(before)


def tampered(draw: Draw, path: Path) -> bytes:
    """Another content for a file of a run."""
    data = path.read_bytes()
    if path.suffix in (".json", ".yaml") and draw(st.booleans()):
        tree = draw(changed([short(yaml.safe_load(data) if path.suffix == ".yaml"
                                   else json.loads(data))]))  # fmt: skip
        return json.dumps(tree).encode()
    return bytes(draw(damaged([data[:4000]])))


@given(st.data())
@fuzzed
def test_run_directories(run: RunDir, data: st.DataObject) -> None:
    path = run.root / data.draw(FILES)
    with exchanged(path, tampered(data.draw, path)):
        read_all(run.root)


@given(st.data())
@rarely
def test_what_is_made_of_run_directories(run: RunDir, data: st.DataObject) -> None:
    path = run.root / data.draw(FILES)
    with exchanged(path, tampered(data.draw, path)), own_errors_only():
        opened = RunDir.open(run.root)
        for make in (analysis.measurements, analysis.engine_facts, analysis.agreement_table,
                     analysis.scope, judgement.audited, judgement.conditions,
                     judgement.verdict_of):  # fmt: skip
            with own_errors_only():
                make(opened)


@given(st.one_of(st.binary(max_size=200), CHUNKS, VALUES.map(repr).map(
    lambda text: text.encode(errors="surrogatepass"))))  # fmt: skip
@fuzzed
def test_plain_data(data: bytes) -> None:
    for read in (plain.from_json, plain.from_json_sequence, plain.from_yaml):
        with own_errors_only():
            read(data)
