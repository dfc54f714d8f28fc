"""The tiny checkpoint: the same bytes from the same seed, and prompts that keep their length."""

import random
from pathlib import Path

import pytest

from reproduce.engine import checkpoint
from reproduce.outside.stored import sha256

pytestmark = pytest.mark.engine


def digests(directory: Path) -> dict[str, str]:
    return {path.name: sha256(path) for path in sorted(directory.iterdir())}


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    first = checkpoint.ensure(tmp_path / "a")
    second = checkpoint.ensure(tmp_path / "b")
    other = checkpoint.ensure(tmp_path / "a", seed=1)
    assert first.name == second.name
    assert digests(first) == digests(second)
    assert digests(other)["model.safetensors"] != digests(first)["model.safetensors"]
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == sorted(
        (first.name, other.name)
    )


def test_a_word_token_survives_the_round_trip(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(checkpoint.ensure(tmp_path))
    assert len(tokenizer) == checkpoint.CONFIG["vocab_size"]
    vocabulary, _ = checkpoint.word_tokens(checkpoint.CONFIG["vocab_size"])
    words = [index for token, index in vocabulary.items() if len(token) == 5]
    ids = random.Random(1).choices(words, k=500)  # noqa: S311
    assert tokenizer.encode(tokenizer.decode(ids), add_special_tokens=False) == ids
    assert len(words) > 0.85 * len(vocabulary)
