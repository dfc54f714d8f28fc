"""The commands `budget` and `plan`, as a user meets them."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from reproduce.cli.memory import register
from reproduce.errors import ReproduceError
from reproduce.outside.catalog import load_config

app = typer.Typer()
register(app)

BUDGET = ["budget", "--model", "deepseek-r1", "--quant", "fp8", "--gpu", "h100-80gb"]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def answer(*arguments: str) -> dict[str, Any]:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_budget_of_the_articles_topology() -> None:
    found = answer(*BUDGET, "--tp", "8", "--pp", "2", "--dp", "1", "--ep")
    assert [round(r["parameter_bytes"] / 2**30, 3) for r in found["ranks"]] == [38.411, 40.882]
    assert [round(r["absorbed_bytes"] / 2**30, 3) for r in found["ranks"]] == [0.121, 0.117]
    assert [r["layers"] for r in found["ranks"]] == [[0, 30], [31, 60]]
    assert found["kv_bytes_per_token"] == [35_712, 34_560]
    assert found["total_memory_gib"] == 79.2
    assert found["fits"] is True
    for rank in found["ranks"]:
        kinds = rank["parameter_bytes"] + rank["buffer_bytes"] + rank["absorbed_bytes"]
        assert sum(rank["groups"].values()) == kinds
    assert len(found["kv_gib"]) == 2
    for low, high in [*found["kv_gib"], found["tokens"], found["max_concurrency"]]:
        assert low < high


def test_json_has_the_documented_keys() -> None:
    assert set(answer(*BUDGET)) == {
        "model",
        "topology",
        "ranks",
        "kv_bytes_per_token",
        "total_memory_gib",
        "overhead_gib",
        "kv_gib",
        "tokens",
        "max_concurrency",
        "fits",
        "reason",
    }


def test_the_recipe_that_does_not_fit_says_by_how_much() -> None:
    found = answer(*BUDGET, "--dp", "16", "--ep")
    assert found["fits"] is False
    assert "GiB short" in found["reason"]
    assert answer(*BUDGET[:-1], "h200-141gb", "--dp", "16", "--ep")["fits"] is True


def test_a_given_cache_gives_exact_tokens() -> None:
    tiny = ["budget", "--model", "tiny-deepseek-v3", "--kv-gib", "1", "--block-size", "16"]
    found = answer(*tiny)
    assert found["tokens"] == [233_008, 233_008]
    assert found["kv_gib"] == [[1.0, 1.0]]
    assert found["overhead_gib"] is None
    two = answer(*BUDGET, "--tp", "8", "--pp", "2", "--kv-gib", "23.5", "--kv-gib", "20")
    assert two["max_concurrency"][0] == two["max_concurrency"][1] < 23.5 / 5.449


def test_arms_differ_where_they_differ() -> None:
    shape = ["--tp", "8", "--dp", "2", "--ep"]
    native = answer(*BUDGET, *shape)
    transformers = answer(*BUDGET, *shape, "--arm", "transformers")
    sizes = [r["ranks"][0]["parameter_bytes"] for r in (native, transformers)]
    assert sizes[0] > sizes[1]


def test_a_local_configuration(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(load_config("deepseek-r1")))
    local = answer("budget", "--model", str(path), "--gpu", "h100-80gb", "--tp", "8")
    stored = answer(*BUDGET, "--tp", "8")
    assert local["ranks"] == stored["ranks"]


def test_plan() -> None:
    found = answer("plan", "--model", "deepseek-r1", "--gpus", "16", "--gpu", "h100-80gb")
    labels = [row["topology"]["label"] for row in found["topologies"]]
    assert "TP8 × PP2 × EP8" in labels
    last = found["topologies"][-1]
    assert last["topology"]["dp"] == 16
    assert last["short_gib"] > 4


def test_tables_are_readable() -> None:
    shown = run(*BUDGET, "--tp", "8", "--pp", "2", "--ep").stdout
    assert "38.552" in shown
    assert "41.018" in shown
    assert "full-length requests" in shown
    plan = run("plan", "--model", "deepseek-r1", "--gpus", "32", "--gpu", "h100-80gb").stdout
    assert "refused: TP32" in plan


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*BUDGET, "--tp", "7"], "TP 7"),
        ([*BUDGET, "--pp", "62"], "PP 62"),
        ([*BUDGET, "--tp", "32"], "TP 32"),
        ([*BUDGET, "--tp", "0"], "at least 1"),
        ([*BUDGET[:-1], "h1000"], "h1000"),
        ([*BUDGET, "--gpu-memory-utilization", "1.5"], "1.5"),
        ([*BUDGET, "--max-model-len", "-1"], "-1"),
        ([*BUDGET, "--max-model-len", "0"], "length 0"),
        ([*BUDGET, "--kv-gib", "nan"], "nan"),
        ([*BUDGET, "--kv-gib", "inf"], "inf"),
        (["plan", "--model", "deepseek-r1", "--gpus", "9999", "--gpu", "h100-80gb"], "9999"),
        ([*BUDGET, "--block-size", "0"], "block size 0"),
        ([*BUDGET, "--kv-gib", "1", "--kv-gib", "2"], "2 KV cache sizes"),
        (["budget", "--model", "deepseek-r1"], "--kv-gib"),
        (["budget", "--model", "nope", "--gpu", "h100-80gb"], "nope"),
        (["budget", "--model", "deepseek-v2", "--quant", "fp8", "--kv-gib", "1"], "bf16"),
        (["plan", "--model", "deepseek-r1", "--gpus", "0", "--gpu", "h100-80gb"], "0 GPUs"),
    ],
)
def test_bad_input_is_one_clear_line(arguments: list[str], message: str) -> None:
    result = run(*arguments)
    assert isinstance(result.exception, ReproduceError), result.output
    assert message in str(result.exception)
    assert "\n" not in str(result.exception)


def test_computation_takes_less_than_50_ms() -> None:
    arguments = ["plan", "--model", "deepseek-r1", "--gpus", "16", "--gpu", "h100-80gb", "--json"]
    run(*arguments)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        run(*arguments)
        times.append(time.perf_counter() - start)
    assert min(times) < 0.05


def test_nothing_here_imports_the_engine() -> None:
    code = (
        "import sys; import reproduce.cli.memory; "
        "sys.exit(any(name in sys.modules for name in ('vllm', 'torch')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
