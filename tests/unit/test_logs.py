"""Engine logs: bounded under a writer that does not know it, packed, and read the same way."""

import gzip
import re
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reproduce.engine import logs
from reproduce.engine.process import GuardedProcess
from reproduce.errors import DataError
from reproduce.evidence.engine_log import parse_log
from reproduce.outside import profile_store
from reproduce.reading import analysis
from tests.conftest import REPO
from tests.synthetic import engine_log, make_run

LIMIT = 4000
QUARTER = LIMIT // 4
NOTE = re.compile(r"\n\[\.\.\. (\d+) bytes of this log were left out here \.\.\.\]\n")


@given(st.lists(st.integers(1, 9000), min_size=1, max_size=12))
def test_what_is_kept_and_what_is_left_out_add_up(tmp_path_factory, sizes):
    path = tmp_path_factory.mktemp("log") / "engine.log"
    written = b""
    with path.open("ab", buffering=0) as writer:
        for number, size in enumerate(sizes):
            chunk = bytes([65 + number]) * size
            writer.write(chunk)
            written += chunk
            logs.trim(path, LIMIT)
            assert path.stat().st_size <= LIMIT
    text = path.read_bytes()
    if len(written) <= LIMIT:
        assert text == written
        return
    note = NOTE.search(text.decode())
    assert note is not None
    head, tail = text[: note.start()], text[note.end() :]
    assert len(head) == QUARTER
    assert len(tail) >= QUARTER
    assert written.startswith(head)
    assert written.endswith(tail)
    assert len(head) + int(note[1]) + len(tail) == len(written)


def test_a_log_at_the_limit_is_left_alone(tmp_path):
    path = tmp_path / "engine.log"
    path.write_bytes(b"x" * LIMIT)
    logs.trim(path, LIMIT)
    assert path.read_bytes() == b"x" * LIMIT


def test_a_flood_is_bounded_while_it_lasts_and_the_engine_goes_on(tmp_path):
    log = tmp_path / "engine.log"
    flood = (
        "import os, time\n"
        f"os.write(1, {engine_log('transformers').encode()!r})\n"
        "for _ in range(80): os.write(1, b'DEBUG noise\\n' * 90_000); time.sleep(0.02)\n"
        "os.write(1, b'ValueError: the end\\n'); time.sleep(600)\n"
    )
    process = GuardedProcess(
        [sys.executable, "-c", flood], env={}, workdir=REPO, log=log, stop_timeout_s=10
    )
    try:
        deadline = time.monotonic() + 60
        while (
            not logs.read(log, 100).endswith("the end\n") or log.stat().st_size > logs.LIMIT_BYTES
        ):
            assert time.monotonic() < deadline
            assert process.alive
            time.sleep(0.1)
    finally:
        process.stop()
    assert log.stat().st_size < logs.LIMIT_BYTES
    text = log.read_text()
    note = NOTE.search(text)
    assert note is not None
    assert int(note[1]) > 80 * 90_000 * 12 - logs.LIMIT_BYTES
    assert parse_log(text) == parse_log(engine_log("transformers"))


@pytest.mark.parametrize("size", [0, 10, 999, 1000, 1001, 5000])
def test_never_more_is_read_than_the_limit(tmp_path, size):
    path = tmp_path / "engine.log"
    path.write_text("".join(chr(65 + n % 26) for n in range(size)))
    text = logs.read(path, 1000)
    assert len(text) == min(size, 1000)
    assert path.read_text().startswith(text[:500])
    assert path.read_text().endswith(text[500:])
    path.with_name("engine.log.gz").write_bytes(logs.compress(path.read_bytes()))
    path.unlink()
    assert len(logs.read(path, 1000)) == min(size, 1000)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-9],
        lambda data: b"x" * 99,
        lambda data: data[:40] + b"\0" * 20 + data[60:],
    ],
    ids=["cut off", "not packed", "overwritten"],
)
def test_a_damaged_packed_log_is_one_line(tmp_path, damage):
    (tmp_path / "engine.log.gz").write_bytes(damage(logs.compress(engine_log("native").encode())))
    with pytest.raises(DataError, match=r"engine\.log\.gz: cannot be read as a log"):
        logs.read(tmp_path / "engine.log")


def test_a_log_that_is_not_there_is_one_line(tmp_path):
    with pytest.raises(DataError, match="cannot be read as a log"):
        logs.read(tmp_path / "engine.log")


def test_the_nodes_of_a_start_are_in_order_in_either_form(tmp_path):
    names = ["engine.log", "engine.node-1.log", "engine.node-2.log.gz", "engine.node-10.log.gz"]
    for name in [*names, "command.json", ".engine.log.gz.x"]:
        (tmp_path / name).touch()
    found = [path.name for path in logs.of_start(tmp_path)]
    assert found == [name.removesuffix(".gz") for name in names]


def test_a_run_says_the_same_with_packed_logs_and_of_every_node(tmp_path):
    run = make_run(tmp_path / "run", profile_store.load("smoke"))
    plain = [facts.engine for facts in analysis.engine_facts(run)]
    for path in list(run.root.rglob("engine.log")):
        words = path.read_text().splitlines(keepends=True)
        for name, part in (("engine.log", words[:2]), ("engine.node-1.log", words[2:])):
            data = logs.compress("".join(part).encode())
            path.with_name(f"{name}.gz").write_bytes(data)
            assert gzip.decompress(data) == "".join(part).encode()
        path.unlink()
    run.add_raw()  # what is remembered of the run goes by its manifest
    assert [facts.engine for facts in analysis.engine_facts(run)] == plain
    assert len(plain) == 2


def test_packing_is_the_same_bytes_every_time():
    command = "from reproduce.engine import logs; print(logs.compress(b'x' * 99).hex())"
    other = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True,
                           check=True)  # fmt: skip
    assert other.stdout.strip() == logs.compress(b"x" * 99).hex()
