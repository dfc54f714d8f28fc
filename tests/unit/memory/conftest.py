import pytest

from reproduce.memory.architecture import Architecture, parse_architecture
from reproduce.outside.catalog import load_config


@pytest.fixture(scope="session")
def r1() -> Architecture:
    return parse_architecture(load_config("deepseek-r1"), "deepseek-r1")
