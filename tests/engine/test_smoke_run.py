"""One command measures both backends on the real engine and renders the report."""

import json

import pytest

from reproduce.evidence.engine_log import missing_fusions
from reproduce.outside.rundir import RunDir
from reproduce.plan import ladder
from reproduce.reading import analysis
from tests.conftest import unmeasured
from tests.engine.conftest import engine_processes

pytestmark = pytest.mark.engine


def test_everything_planned_is_on_file(smoke: RunDir) -> None:
    slots = ladder.slots(smoke.profile)
    assert len(slots) == 2 * 2 * 2
    assert unmeasured(smoke) == []
    assert smoke.changed_files() == []
    for folder in ("tables", "figures", "notebooks"):
        assert any((smoke.root / folder).iterdir())


def test_the_results_are_the_clients_own(smoke: RunDir) -> None:
    for record in smoke.records():
        assert record.result is not None
        data = json.loads(smoke.repeat_stem(record.slot).with_name(record.result).read_text())
        rung = smoke.profile.rung(record.slot.rung)
        assert data["endpoint_type"] == "openai"
        assert data["completed"] == data["num_prompts"] == rung.prompts
        assert data["output_lens"] == [rung.output_tokens] * rung.prompts
        for metric in ("ttft", "tpot", "itl", "e2el"):
            assert f"p99_{metric}_ms" in data


def test_the_records_say_how_and_how_long(smoke: RunDir) -> None:
    for record in smoke.records():
        assert record.argv[:3] == ("vllm", "bench", "serve")
        assert record.warmups >= smoke.profile.rung(record.slot.rung).in_flight
        assert record.before is not None
        assert record.before.running == record.before.waiting == 0
        assert record.after is not None
        assert record.after.prefix_cache_hits == 0
        assert record.after.generation_tokens > record.before.generation_tokens


def test_both_arms_saw_the_same_prompts_in_turn(smoke: RunDir) -> None:
    turns: dict[tuple[str, int, int], list[str]] = {}
    seeds: dict[tuple[str, int], set[str]] = {}
    for record in smoke.records():
        slot = record.slot
        turns.setdefault((slot.rung, slot.repeat, record.attempt), []).append(slot.arm)
        seed = record.argv[record.argv.index("--seed") + 1]
        seeds.setdefault((slot.rung, slot.repeat), set()).add(seed)
    assert all(sorted(arms) == ["native", "transformers"] for arms in turns.values())
    for rung in ("c1", "c4"):
        assert turns[rung, 1, 1] == turns[rung, 2, 1][::-1]
    assert all(len(shared) == 1 for shared in seeds.values())
    assert len(set.union(*seeds.values())) == len(seeds)


def test_the_logs_prove_both_arms(smoke: RunDir) -> None:
    native = analysis.facts_of(smoke, "native")
    transformers = analysis.facts_of(smoke, "transformers")
    assert native is not None
    assert transformers is not None
    assert (native.backend, transformers.backend) == ("native", "transformers")
    assert native.attention_backend == transformers.attention_backend == "CPU_MLA"
    assert missing_fusions(transformers, native.architecture) == ()
    assert native.kv_tokens == transformers.kv_tokens == 233_008
    assert analysis.scope(smoke).is_test


def test_the_report_shows_both_and_warns_that_it_ran_eager(smoke: RunDir) -> None:
    text = (smoke.root / "report.html").read_text()
    assert "TransformersMoEForCausalLM" in text
    assert "DeepseekV3ForCausalLM" in text
    assert "without torch.compile" in text
    assert "Traceback" not in text


def test_nothing_is_left_behind(smoke: RunDir) -> None:
    assert smoke.root.is_dir()
    assert engine_processes(smoke.root) == []
