"""`reproduce audit`, `compare` and `claims`: what they print, and the status they end with."""

import json
import sys

import pytest

from reproduce import cli
from tests.conftest import PUBLISHED
from tests.unit.results import ARTICLE, result, write

FILES = [
    str(PUBLISHED / "raw" / arm / "launch-01/unbounded/rep-01.json")
    for arm in ("native", "transformers")
]
LENGTHS = ["--input-len", "1024", "--output-len", "2048"]


@pytest.fixture
def reproduce(monkeypatch, capsys):
    def call(*arguments):
        monkeypatch.setenv("COLUMNS", "200")
        monkeypatch.setattr(sys, "argv", ["reproduce", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        output = capsys.readouterr()
        return ended.value.code, output.out, output.err

    return call


def test_the_articles_files_have_no_violation(reproduce):
    status, out, _ = reproduce("audit", *FILES, *LENGTHS)
    assert status == 0
    assert out.count(" hold") == 2
    assert "violated" not in out
    assert len([line for line in out.splitlines() if "not checkable from this file" in line]) == 2


DAMAGED = {
    "duration": ({"duration": 270.0}, "throughput"),
    "throughput": ({"total_token_throughput": 5600.0}, "throughput"),
    "tokens": ({"total_output_tokens": 1048000}, "output-tokens"),
    "TPOT": ({"mean_tpot_ms": 95.0}, "latency-sum"),
    "TTFT": ({"mean_ttft_ms": 12000.0}, "latency-sum"),
    "lost requests": ({"completed": 500}, "requests"),
    "percentile": ({"p99_tpot_ms": 90.0}, "percentiles"),
    "peak": ({"max_output_tokens_per_s": 3000.0}, "peak"),
    "concurrency": ({"max_concurrency": 128}, "little"),
    "short prompts": ({"total_input_tokens": 500000}, "input-tokens"),
}


@pytest.mark.parametrize(("change", "identity"), DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_copy_is_violated_by_name(reproduce, tmp_path, change, identity):
    path = write(tmp_path / "damaged.json", {**ARTICLE, **change})
    status, out, _ = reproduce("audit", path, *LENGTHS)
    assert status == 1
    assert f"  violated {identity}: " in out


def test_one_bad_result_among_several_is_told_by_its_place(reproduce, tmp_path):
    path = write(tmp_path / "all.json", result(), result(duration=1.0), result())
    status, out, _ = reproduce("audit", path)
    assert status == 1
    headings = [line for line in out.splitlines() if "all.json" in line]
    assert ["violated" in line for line in headings] == [False, True, False]
    assert "result 2" in headings[1]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["audit", "/nowhere.json"], "/nowhere.json: cannot be read"),
        (["audit", FILES[0], "--output-len", "0"], "output-len"),
        (["audit"], "'files'"),
        (["claims", "/nowhere"], "/nowhere: not a run directory"),
        (["compare", "--native", "/no/*", "--transformers", "/no/*"], "/no/*: no result file"),
        (["compare", "--native", "x"], "transformers"),
    ],
)
def test_a_mistake_is_one_line_and_status_2(reproduce, arguments, told):
    status, out, err = reproduce(*arguments)
    assert status == 2
    assert told in err
    assert err.count("\n") == 1
    assert out == ""


def test_compare(reproduce, tmp_path):
    for arm, slower in (("native", 1.0), ("transformers", 1.01)):
        for day in range(1, 4):
            name = tmp_path / arm / f"{day}.json"
            write(name, result(slower + day / 1000 * (arm == "native"), date=str(day)))
    status, out, _ = reproduce(
        "compare", "--native", tmp_path / "native", "--transformers", tmp_path / "transformers"
    )
    assert status == 0
    assert "Total token throughput" in out
    assert "verdict: equivalent." in out
    assert "on trust" in out


def test_compare_refuses_with_key_and_both_values(reproduce, tmp_path):
    one = write(tmp_path / "a.json", result(max_concurrency=16))
    other = write(tmp_path / "b.json", result(max_concurrency=64))
    status, _, err = reproduce("compare", "--native", one, "--transformers", other)
    assert status == 2
    assert "max_concurrency differs: native has 16" in err
    assert "transformers has 64" in err


def test_compare_of_a_file_that_contradicts_itself(reproduce, tmp_path):
    one = write(tmp_path / "a.json", result())
    other = write(tmp_path / "b.json", result(duration=200.0))
    status, out, _ = reproduce("compare", "--native", one, "--transformers", other)
    assert status == 1
    assert "verdict: withheld." in out


def test_claims_of_the_published_data(reproduce):
    status, out, _ = reproduce("claims", PUBLISHED)
    assert status == 0
    assert "0 contradicted" in out
    assert "0 not consistent" in out
    first = next(line for line in out.splitlines() if "Averaged over the ladder" in line)
    assert "not testable here" in first


def test_markup_in_a_file_is_printed_as_it_is(reproduce, tmp_path):
    one = write(tmp_path / "a.json", result(model_id="[/red]"))
    other = write(tmp_path / "b.json", result(model_id="[/red]"))
    status, _, _ = reproduce("compare", "--native", one, "--transformers", other)
    assert status == 0
    path = write(tmp_path / "c.json", {**json.loads(json.dumps(ARTICLE)), "mean_[/b]_ms": 1})
    assert reproduce("audit", path)[0] == 0
