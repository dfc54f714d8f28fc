"""The installed vLLM's own sweep code writes the folders that `reproduce compare` reads."""

import json

import pytest

from reproduce.reading.compare import compare
from tests.unit.results import result, write

pytestmark = pytest.mark.engine


def test_folders_that_the_installed_vllm_writes(tmp_path):
    from vllm.benchmarks.sweep import serve
    from vllm.benchmarks.sweep.param_sweep import ParameterSweepItem

    for impl in ("vllm", "transformers"):
        started = ParameterSweepItem.from_record({"model_impl": impl})
        for level in (512, 600):
            asked = ParameterSweepItem.from_record({"max_concurrency": level})
            base = serve._get_comb_base_path(tmp_path / impl / "20260801_120000", started, asked)
            for number in range(3):
                write(serve._get_comb_run_path(base, number), result(max_concurrency=level))
            summary = serve.run_comb(
                None, [], serve_comb=started, bench_comb=asked, link_vars=[], base_path=base,
                num_runs=3, dry_run=False,
            )  # fmt: skip
            assert len(summary) == 3
            assert len(json.loads(serve._get_comb_run_path(base, None).read_text())) == 3
    found = compare(str(tmp_path / "vllm"), str(tmp_path / "transformers"), 0.03)
    assert [rung.concurrency for rung in found.profile.ladder] == [512, 600]
    assert [effect.pairs for effect in found.comparison.rungs] == [3, 3]
