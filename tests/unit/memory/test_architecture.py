from typing import Any

import pytest

from reproduce.errors import ConfigError
from reproduce.memory.architecture import parse_architecture
from reproduce.outside.catalog import load_config, stored_models


@pytest.mark.parametrize("name", list(stored_models()))
def test_every_stored_model_is_read(name: str) -> None:
    architecture = parse_architecture(load_config(name), name)
    assert architecture.num_hidden_layers > architecture.first_k_dense_replace


def test_yarn_stretches_the_rotary_table() -> None:
    config = load_config("deepseek-r1")
    assert parse_architecture(config, "x").rope_positions == 40 * 4096
    plain = {key: value for key, value in config.items() if key != "rope_scaling"}
    assert parse_architecture({**plain, "max_position_embeddings": 777}, "x").rope_positions == 777


@pytest.mark.parametrize("key", ["kv_lora_rank", "hidden_size", "n_routed_experts", "vocab_size"])
def test_a_missing_key_is_named(key: str) -> None:
    config = {k: v for k, v in load_config("deepseek-r1").items() if k != key}
    with pytest.raises(ConfigError, match=rf"^some\.json: key '{key}' is missing; add it$"):
        parse_architecture(config, "some.json")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hidden_size", 0),
        ("hidden_size", -7168),
        ("hidden_size", "7168"),
        ("hidden_size", 7168.0),
        ("hidden_size", True),
        ("hidden_size", 10**12),
        ("num_hidden_layers", 10**6),
        ("q_lora_rank", 0),
        ("first_k_dense_replace", -1),
        ("attention_bias", True),
        ("quantization_config", {"quant_method": "awq", "weight_block_size": [128, 128]}),
        ("quantization_config", {"quant_method": "fp8"}),
        ("quantization_config", {"quant_method": "fp8", "weight_block_size": [128, 64]}),
        ("rope_scaling", {"factor": 0.5, "original_max_position_embeddings": 4096}),
    ],
)
def test_an_absurd_value_is_one_line_that_names_the_key(key: str, value: Any) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_architecture({**load_config("deepseek-r1"), key: value}, "some.json")
    message = str(raised.value)
    assert message.startswith("some.json: key ")
    assert key in message
    assert "\n" not in message


def test_an_incomplete_indexer_is_refused() -> None:
    config = {k: v for k, v in load_config("deepseek-v3.2").items() if k != "index_n_heads"}
    with pytest.raises(ConfigError, match="index_n_heads"):
        parse_architecture(config, "some.json")


def test_another_family_is_sent_to_the_engine() -> None:
    with pytest.raises(ConfigError, match=r"'llama'.*--from-engine"):
        parse_architecture({"model_type": "llama"}, "some.json")
