"""Blocks, tokens and concurrency against vLLM's own functions, for caches of any size."""

import json
from pathlib import Path

import pytest

from reproduce.memory.architecture import parse_architecture
from reproduce.memory.kv_cache import capacity, kv_bytes_per_token
from reproduce.memory.topology import Topology, partition_layers
from reproduce.outside.catalog import load_config

pytestmark = pytest.mark.engine

CASES = [
    (stages, block_size, max_model_len, memory_gib)
    for stages, block_size, memory_gib in [
        (1, 16, [41.6]),
        (1, 64, [10.725]),
        (2, 64, [23.5, 21.1]),
        (2, 64, [30.0, 22.73]),
        (4, 32, [9.9, 8.8, 7.7, 6.6]),
        (8, 128, [5.0] * 8),
    ]
    for max_model_len in (4096, 10_000, 163_840)
]


def test_capacity_is_vllms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_LOGGING_LEVEL", "ERROR")
    import torch
    from vllm.engine.arg_utils import EngineArgs
    from vllm.v1.core import kv_cache_utils
    from vllm.v1.kv_cache_interface import MLAAttentionSpec

    config = {k: v for k, v in load_config("deepseek-r1").items() if k != "auto_map"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    engine = EngineArgs(
        model=str(tmp_path), load_format="dummy", skip_tokenizer_init=True, enforce_eager=True
    ).create_engine_config()
    engine.cache_config.kv_cache_layout = "LBNHC"
    r1 = parse_architecture(config, "deepseek-r1")
    refused = 0
    for stages, block_size, max_model_len, memory_gib in CASES:
        engine.cache_config.block_size = block_size
        engine.model_config.max_model_len = max_model_len
        spec = MLAAttentionSpec(
            block_size=block_size,
            num_kv_heads=1,
            head_size=576,
            dtype=torch.bfloat16,
        )
        layers = partition_layers(61, stages)
        specs = [{f"model.layers.{n}.attn": spec for n in stage} for stage in layers]
        memory = [int(gib * 2**30) for gib in memory_gib]
        ours = capacity(
            memory,
            kv_bytes_per_token(r1, Topology(pp=stages)),
            block_size=block_size,
            max_model_len=max_model_len,
        )
        try:
            found = kv_cache_utils.get_kv_cache_configs(engine, specs, memory)
        except ValueError:
            refused += 1
            assert not ours.admits_one_request
            continue
        assert ours.admits_one_request
        scheduler = kv_cache_utils.generate_scheduler_kv_cache_config(found)
        tokens, concurrency = kv_cache_utils.get_kv_cache_capacity(engine, scheduler)
        assert (ours.blocks, ours.tokens) == (scheduler.num_blocks, tokens)
        assert ours.max_concurrency == concurrency
    assert refused == 1, "10.725 GiB holds one full request, but not the null block beside it"
