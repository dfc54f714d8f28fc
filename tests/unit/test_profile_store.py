"""Profiles: what is inherited, what may be overridden, and what each mistake reads like."""

import contextlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reproduce.errors import ConfigError, ReproduceError
from reproduce.outside import profile_store
from tests.conftest import PUBLISHED


def test_every_built_in_profile_loads() -> None:
    assert {"cpu", "smoke", "published"} <= set(profile_store.names())
    for name in profile_store.names():
        assert profile_store.load(name).name == name


def test_the_cpu_ladder_keeps_the_articles_shape() -> None:
    *climb, long = profile_store.load("cpu").ladder
    assert [rung.concurrency for rung in climb] == [1, 4, 8, 16, None]
    assert {(rung.input_tokens, rung.output_tokens) for rung in climb} == {(128, 256)}
    assert (long.concurrency, long.input_tokens, long.output_tokens) == (4, 1024, 128)


def test_a_profile_extends_another() -> None:
    smoke, cpu = profile_store.load("smoke"), profile_store.load("cpu")
    assert smoke.arms == cpu.arms
    assert smoke.server.env == cpu.server.env
    assert smoke.server.flags == {**cpu.server.flags, "enforce-eager": True}
    assert smoke.ladder != cpu.ladder


@pytest.mark.parametrize("name", ["aa", "ablation"])
def test_yardstick_and_ablation_climb_the_same_ladder(name: str) -> None:
    other, cpu = profile_store.load(name), profile_store.load("cpu")
    assert other.ladder == cpu.ladder
    assert other.server == cpu.server
    assert other.arms["native"] == cpu.arms["native"]


def test_overrides_reach_nested_keys_and_leave_the_rest() -> None:
    profile = profile_store.load(
        "cpu", {"repeats": 5, "arms.transformers.env.VLLM_MLA_DISABLE": 1, "server.port": 8241}
    )
    assert profile.repeats == 5
    assert profile.arms["transformers"].env == {"VLLM_MLA_DISABLE": "1"}
    assert profile.arms["transformers"].serve == {"model-impl": "transformers"}
    assert profile.server.port == 8241


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("repeat", 3, "did you mean 'repeats'"),
        ("server.prot", 8241, "did you mean 'port'"),
        ("repeats", "three", "valid integer, found 'three'"),
        ("repeats", True, "valid integer, found True"),
        ("repeats", 0, "greater than or equal to 1"),
        ("margin", 3, "less than 1"),
        ("ladder", [], "at least 1 item"),
        ("baseline", "nativ", "no arm is called 'nativ'"),
        ("candidate", "native", "another arm than baseline"),
        ("mean_tpot_over", ["c2"], "no rung is called 'c2'"),
        ("source", "data/published", "only for them"),
        ("name.first", 1, "holds no keys"),
    ],
)
def test_a_wrong_override_is_one_line_with_its_key(key: str, value: Any, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        profile_store.load("cpu", {key: value})
    assert words in str(caught.value)
    assert key.partition(".")[0] in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [", "not readable as YAML"),
        ("- a", "mapping of keys"),
        ("extends: nothing", "no such profile"),
        ("extends: [cpu]", "must be a profile's name"),
        ("extends: cpu\nladders: 3", "no such key; did you mean 'ladder'"),
        ("name: x\ndescription: y", "is missing"),
        ("extends: cpu\nname: 'a b'", "name: String should match"),
        ("extends: cpu\nmodel: !!python/object/apply:os.system ['true']", "not readable as YAML"),
    ],
)
def test_a_wrong_file_is_one_line_with_its_path(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        profile_store.load(str(path))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_profile_that_extends_itself(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(f"extends: {path}")
    with pytest.raises(ConfigError, match="circle"):
        profile_store.load(str(path))


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("extends: smoke\nname: mine\nrepeats: 7\n")
    assert profile_store.load(str(path)).repeats == 7


def test_items_of_the_command_line() -> None:
    assert profile_store.parse_overrides(["repeats=5", "model.id=/m", "server.port="]) == {
        "repeats": 5, "model.id": "/m", "server.port": "",
    }  # fmt: skip
    for item in ("repeats", "=3", "repeats=[", "x=!!python/name:os.system"):
        with pytest.raises(ConfigError):
            profile_store.parse_overrides([item])


def test_the_kept_profile_is_the_built_in_one(published: Any) -> None:
    assert (PUBLISHED / "profile.yaml").is_file()
    assert published.profile == profile_store.load("published")


@given(st.dictionaries(st.text(max_size=12), st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner,
                                                                max_size=3),
    max_leaves=6), max_size=4))  # fmt: skip
def test_any_overrides_load_or_are_refused(overrides: dict[str, Any]) -> None:
    with contextlib.suppress(ReproduceError):
        profile_store.load("cpu", overrides)
