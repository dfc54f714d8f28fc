import pytest

from reproduce.catalog import load_config
from reproduce.memory.architecture import Architecture, parse_architecture


@pytest.fixture(scope="session")
def r1() -> Architecture:
    return parse_architecture(load_config("deepseek-r1"), "deepseek-r1")
