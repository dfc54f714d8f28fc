from pathlib import Path

import pytest

from reproduce.engine.checkpoint import CONFIG
from reproduce.errors import ConfigError, DataError
from reproduce.outside import catalog


def test_the_stored_tiny_model_is_the_checkpoint_that_is_made() -> None:
    assert catalog.load_config("tiny-deepseek-v3") == CONFIG


def test_a_model_is_found_by_name_hub_id_file_and_directory(tmp_path: Path) -> None:
    r1 = catalog.load_config("deepseek-r1")
    assert catalog.load_config("deepseek-ai/DeepSeek-R1-0528") == r1
    (tmp_path / "config.json").write_text('{"hidden_size": 1}')
    assert catalog.load_config(str(tmp_path)) == {"hidden_size": 1}
    assert catalog.load_config(str(tmp_path / "config.json")) == {"hidden_size": 1}


@pytest.mark.parametrize("text", ["", "{", "[1]", "7", "\ufeff"])
def test_a_file_that_is_no_configuration(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match="not a JSON object") as raised:
        catalog.load_config(str(path))
    assert "\n" not in str(raised.value)


def test_binary_is_no_configuration(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not a JSON object"):
        catalog.load_config(str(path))


def test_unknown_names_list_the_known() -> None:
    with pytest.raises(ConfigError, match="deepseek-r1"):
        catalog.load_config("deepseek-r2")
    with pytest.raises(ConfigError, match="h100-80gb"):
        catalog.load_gpu("h100")


def test_extra_and_missing_keys_of_our_files_are_named(tmp_path: Path) -> None:
    gpus = tmp_path / "gpus.yaml"
    gpus.write_text("overhead_gib: {low: 1, high: 2}\ngpus: {a: {total_gib: 1, source: x, b: 2}}\n")
    with pytest.raises(DataError, match=r"gpus\.yaml: key 'gpus\.a\.b'"):
        catalog.load_gpus(gpus)
    (tmp_path / "m.json").write_text('{"name": "m", "repositories": [], "source": "x"}')
    with pytest.raises(DataError, match=r"m\.json: key 'config'"):
        catalog.stored_models(tmp_path)
    figures = tmp_path / "memory_figures.json"
    figures.write_text('{"source": "x"}')
    with pytest.raises(DataError, match=r"memory_figures\.json: key 'figures'"):
        catalog.load_published_figures(figures)


def test_a_bad_log_row_is_named_by_line(tmp_path: Path) -> None:
    path = tmp_path / "memory_logs.csv"
    lines = (catalog.DATA_DIRECTORY / "memory_logs.csv").read_text().splitlines()
    path.write_text("\n".join([*lines[:2], lines[2].replace(",8,", ",eight,", 1)]) + "\n")
    with pytest.raises(DataError, match=r"line 3: key 'tp'"):
        catalog.load_memory_logs(path)
