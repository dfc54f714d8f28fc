import pytest
from hypothesis import given
from hypothesis import strategies as st

from reproduce.errors import ConfigError
from reproduce.memory.architecture import Architecture, parse_architecture
from reproduce.memory.kv_cache import (
    CPU_BLOCK_SIZE,
    CPU_MLA_BLOCK_SIZE,
    capacity,
    kv_bytes_per_token,
    request_bytes,
)
from reproduce.memory.topology import Topology
from reproduce.outside.catalog import load_config


def test_latent_is_replicated_over_tp_and_divided_by_pp(r1: Architecture) -> None:
    for tp in (1, 8, 16):
        assert kv_bytes_per_token(r1, Topology(tp)) == (70_272,)
    assert kv_bytes_per_token(r1, Topology(8, 2, ep=True)) == (35_712, 34_560)
    assert kv_bytes_per_token(r1, Topology(1, 1, 16, ep=True)) == (70_272,)


def test_without_mla_heads_are_divided_by_tp(r1: Architecture) -> None:
    whole = kv_bytes_per_token(r1, Topology(), mla=False)
    assert whole == (61 * 128 * 2 * 192 * 2,)
    assert kv_bytes_per_token(r1, Topology(8), mla=False) == (whole[0] // 8,)


def test_the_indexer_caches_its_keys_too() -> None:
    sparse = parse_architecture(load_config("deepseek-v3.2"), "v3.2")
    assert kv_bytes_per_token(sparse, Topology()) == (61 * (1152 + 132),)


@pytest.mark.parametrize(
    ("mla", "block_size", "tokens"),
    [(True, CPU_MLA_BLOCK_SIZE, 233_008), (False, CPU_BLOCK_SIZE, 87_296)],
)
def test_what_the_cpu_engine_logs_for_one_gib(mla: bool, block_size: int, tokens: int) -> None:
    tiny = parse_architecture(load_config("tiny-deepseek-v3"), "tiny")
    per_token = kv_bytes_per_token(tiny, Topology(), mla=mla)
    found = capacity([2**30], per_token, block_size=block_size, max_model_len=4096)
    assert found.tokens == tokens


def test_a_request_takes_whole_blocks() -> None:
    assert request_bytes([10], block_size=16, max_model_len=33) == (10 * 16 * 3,)
    one = capacity([10 * 16 * 3], [10], block_size=16, max_model_len=33)
    assert one.max_concurrency == 1
    assert not one.admits_one_request, "vLLM sets a null block aside"
    assert capacity([10 * 16 * 4], [10], block_size=16, max_model_len=33).admits_one_request


def test_the_tightest_stage_decides() -> None:
    both = capacity([1000, 500], [1, 2], block_size=10, max_model_len=100)
    assert both.blocks == 25


def test_no_memory_is_no_tokens() -> None:
    none = capacity([-5], [10], block_size=16, max_model_len=100)
    assert (none.blocks, none.tokens, none.admits_one_request) == (0, 0, False)


@pytest.mark.parametrize(("block_size", "length"), [(0, 100), (16, 0), (-1, 100)])
def test_absurd_settings_are_refused(block_size: int, length: int) -> None:
    with pytest.raises(ConfigError):
        capacity([100], [10], block_size=block_size, max_model_len=length)


sizes = st.integers(0, 2**40)


@given(
    memory=sizes,
    more=sizes,
    per_token=st.integers(1, 10**6),
    block_size=st.sampled_from([1, 16, 32, 64, 128]),
    length=st.integers(1, 200_000),
)
def test_more_memory_never_means_fewer_tokens(
    memory: int, more: int, per_token: int, block_size: int, length: int
) -> None:
    shape = {"block_size": block_size, "max_model_len": length}
    less, enough = (capacity([m], [per_token], **shape) for m in (memory, memory + more))
    assert less.tokens <= enough.tokens
    assert less.max_concurrency <= enough.max_concurrency
    assert less.blocks * block_size * per_token <= memory
    assert enough.admits_one_request >= less.admits_one_request
