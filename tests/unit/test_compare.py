"""Files made elsewhere are compared as a run's own, or refused with the key and both values."""

import json

import numpy as np
import pytest

from reproduce.errors import DataError, IncomparableError
from reproduce.reading.compare import compare
from reproduce.reading.result_files import find_results, read_results
from reproduce.verdicts.verdict import Label
from tests.unit.results import result, write


def both(tmp_path, native, transformers, margin=0.03):
    """Compare two lists of results, each in files of its own."""
    for arm, results in (("native", native), ("transformers", transformers)):
        for number, one in enumerate(results):
            write(tmp_path / arm / f"{number}.json", one)
    return compare(str(tmp_path / "native"), str(tmp_path / "transformers" / "*.json"), margin)


def series(speed, n=9, seed=0, **change):
    """Results of ``n`` repeats, in order of their dates, 0.3 % of noise."""
    random = np.random.default_rng(seed)
    return [
        result(np.exp(0.003 * random.standard_normal()) / speed, date=f"2026-08-{day:02}", **change)
        for day in range(1, n + 1)
    ]


def test_alike(tmp_path):
    found = both(tmp_path, series(1), series(0.995, seed=1))
    assert found.verdict.label is Label.EQUIVALENT
    assert found.comparison.ladder.ratio == pytest.approx(0.995, abs=0.004)
    assert "on trust" in found.verdict.limits[-1]
    assert any("One launch" in limit for limit in found.verdict.limits)


def test_a_slow_arm_is_different(tmp_path):
    found = both(tmp_path, series(1), series(0.8, seed=1))
    assert found.verdict.label is Label.DIFFERENT


def test_the_margin_is_used(tmp_path):
    assert (
        both(tmp_path, series(1), series(0.9, seed=1), margin=0.2).verdict.label is Label.EQUIVALENT
    )


def test_workloads_are_paired_by_what_the_files_say(tmp_path):
    def ladder(speed):
        return [
            result(1 / speed, max_concurrency=level, date=date)
            for level in (None, 600, 512)
            for date in ("2026-01-01", "2026-01-02")
        ]

    found = both(tmp_path, ladder(1), list(reversed(ladder(0.99))))
    assert [rung.concurrency for rung in found.profile.ladder] == [None, 600, 512]
    assert [effect.pairs for effect in found.comparison.rungs] == [2, 2, 2]


def test_prompts_of_another_seed_are_the_same_workload(tmp_path):
    other = result(total_input_tokens=524000)
    rates = {"input_throughput": 524000, "total_token_throughput": 524000 + 1048576}
    other |= {key: tokens / other["duration"] for key, tokens in rates.items()}
    found = both(tmp_path, [result()], [other])
    assert len(found.profile.ladder) == 1


REFUSED = {
    "concurrency": ({"max_concurrency": 600}, "max_concurrency", "None", "600"),
    "rate": ({"request_rate": 4.0}, "request_rate", "'inf'", "4.0"),
    "prompts": ({"num_prompts": 500}, "num_prompts", "512", "500"),
    "lengths": ({"total_output_tokens": 524288}, "total_output_tokens", "1048576", "524288"),
    "model": ({"model_id": "other/model"}, "model_id", "DeepSeek-R1", "other/model"),
    "endpoint": ({"backend": "openai-chat"}, "backend", "'openai'", "'openai-chat'"),
    "a setting of a sweep": ({"tensor_parallel_size": 4}, "tensor_parallel_size", "None", "4"),
    "metadata": ({"version": "0.31"}, "version", "None", "0.31"),
}


@pytest.mark.parametrize(("change", "key", "ours", "theirs"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_comparable_is_refused(tmp_path, change, key, ours, theirs):
    with pytest.raises(IncomparableError, match=rf"not comparable, {key} differs") as caught:
        both(tmp_path, [result()], [result(**change)])
    text = str(caught.value)
    assert ours in text
    assert theirs in text
    assert "native/0.json" in text
    assert "transformers/0.json" in text
    assert "\n" not in text


def test_files_given_as_the_other_arm_are_refused(tmp_path):
    native = [result(model_impl="transformers")]
    with pytest.raises(
        IncomparableError, match="given as native, but model_impl is 'transformers'"
    ):
        both(tmp_path, native, [result(model_impl="vllm")])
    with pytest.raises(IncomparableError, match="given as transformers, but model_impl is 'auto'"):
        both(tmp_path, [result(model_impl="vllm")], [result(model_impl="auto")])


def test_a_workload_that_one_arm_lacks_is_refused(tmp_path):
    with pytest.raises(IncomparableError, match="max_concurrency differs: native has 600"):
        both(tmp_path, [result(), result(max_concurrency=600)], [result()])


def test_failed_requests_do_not_count(tmp_path):
    bad = result(completed=510, failed=2)
    found = both(tmp_path, [result(), bad], [result(), result()])
    assert found.measurements["valid"].tolist().count(False) == 1
    assert "510 of 512" in " ".join(found.measurements["reasons"])


def test_a_file_that_contradicts_itself_withholds_the_verdict(tmp_path):
    found = both(tmp_path, series(1), [*series(1)[:-1], result(total_token_throughput=9000.0)])
    assert found.verdict.label is Label.WITHHELD
    assert "throughput" in found.verdict.headline


def test_results_without_a_partner_are_told(tmp_path):
    found = both(tmp_path, series(1), series(1, n=8))
    assert "1 results have no partner and were left out." in found.verdict.limits


# Files


def test_appended_results(tmp_path):
    path = write(tmp_path / "all.json", result(), result(), result())
    found = read_results(path)
    assert len(found) == 3
    assert found[1].where.endswith("all.json, result 2")


def sweep(root, impl):
    """A folder as `vllm bench sweep serve` leaves it."""
    for level in (None, 600):
        folder = (
            root / "20260801_120000" / f"SERVE--model_impl={impl}-BENCH--max_concurrency={level}"
        )
        runs = [
            result(max_concurrency=level, run_number=n, model_impl=impl, date=f"2026-08-0{n + 1}")
            for n in range(3)
        ]
        for one in runs:
            write(folder / f"run={one['run_number']}.json", one)
        folder.joinpath("summary.json").write_text(json.dumps(runs))
        write(folder / "warmup.json", result(num_prompts=8, run_number=-1))
        write(folder / "run=3.failure.json", {"run_number": 3, "error": "timeout"})
    root.joinpath("20260801_120000/summary.csv").write_text("run_number\n0\n")
    return root


def test_the_folders_of_a_sweep(tmp_path):
    native, transformers = (str(sweep(tmp_path / impl, impl)) for impl in ("vllm", "transformers"))
    assert len(find_results(native)) == 6
    found = compare(native, transformers, 0.03)
    assert len(found.profile.ladder) == 2
    assert [effect.pairs for effect in found.comparison.rungs] == [3, 3]


def test_a_summary_by_itself_is_read(tmp_path):
    path = tmp_path / "summary.json"
    path.write_text(json.dumps([result(), result()]))
    assert len(read_results(find_results(str(path))[0])) == 2


BAD = {
    "empty": ("", "empty"),
    "cut off": ('{"duration": 1', "not JSON"),
    "an empty list": ("[]", "holds no result"),
    "rubbish after a result": ("{} x", "not JSON"),
    "deep": ("[" * 100_000, "not JSON"),
}


@pytest.mark.parametrize(("text", "told"), BAD.values(), ids=BAD)
def test_a_bad_file_is_one_line(tmp_path, text, told):
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(DataError, match=told) as caught:
        read_results(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bytes_and_missing_files_are_one_line(tmp_path):
    path = tmp_path / "bad.json"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="not text"):
        read_results(path)
    with pytest.raises(DataError, match="cannot be read"):
        read_results(tmp_path / "none.json")
    with pytest.raises(DataError, match="no result file there"):
        find_results(str(tmp_path / "*.csv"))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"num_prompts": None}, "num_prompts is missing"),
        ({"duration": "long"}, "duration must be a number"),
        ({"completed": 0, "failed": 512}, "no request generated two tokens"),
    ],
)
def test_a_result_without_what_is_compared_is_one_line(tmp_path, change, told):
    with pytest.raises(DataError, match=told):
        both(tmp_path, [result(**change)], [result(**change)])


def test_a_list_is_no_result(tmp_path):
    with pytest.raises(DataError, match="expected a JSON object"):
        both(tmp_path, [[1]], [result()])
