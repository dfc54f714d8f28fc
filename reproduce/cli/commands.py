"""The commands `commands` and `slurm-script`: what a run would do, to paste or to submit."""

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import typer

from reproduce.cli.run import Overrides, ProfileName
from reproduce.errors import ConfigError
from reproduce.outside import profile_store, provenance
from reproduce.plan import vllm_contract
from reproduce.profile import Profile, Rung

if TYPE_CHECKING:
    from reproduce.engine.model_source import ModelSource

NODE0 = "$NODE0"
_PORT, _MASTER_PORT = 8000, 29501
_WIDTH = 96


def register(app: typer.Typer) -> None:
    """Add this module's commands to ``app``."""
    app.command()(commands)
    app.command()(slurm_script)


def commands(profile: ProfileName = "cpu", override: Overrides = None) -> None:
    """Print what a run of the profile starts: every server, by node, and every rung's client."""
    chosen = _measured(profile, override)
    typer.echo("\n".join(_commands(chosen)))


def slurm_script(profile: ProfileName = "cpu-slurm", override: Overrides = None) -> None:
    """Print a job script for sbatch; its arguments go to `reproduce run`, as in --resume RUN."""
    from reproduce.engine import slurm

    chosen = _measured(profile, override)
    if chosen.launcher != "slurm":
        raise ConfigError(f"profile '{profile}': starts without Slurm; add -p launcher=slurm")
    overrides = [word for item in override or () for word in ("-p", item)]
    fresh = shlex.join(["--profile", profile, *overrides])
    lines = [
        "#!/usr/bin/env bash",
        f"#SBATCH --job-name={chosen.name}",
        *(f"#SBATCH {option}" for option in slurm.allocation_options(chosen)),
        "#SBATCH --output=%x-%j.log",
        "# Two minutes before the end, so that the run stops in order; --resume goes on with it.",
        "#SBATCH --signal=B:TERM@120",
        "set -euo pipefail",
        f'[ "$#" -gt 0 ] || set -- {fresh}',
        f'exec {shlex.quote(sys.executable)} -P -m reproduce run "$@"',
    ]
    typer.echo("\n".join(lines))


def _measured(name: str, override: Sequence[str] | None) -> Profile:
    profile = profile_store.load(name, profile_store.parse_overrides(override or ()))
    if profile.kind == "published":
        raise ConfigError(f"profile '{name}': replays stored data; it runs no commands")
    return profile


def _commands(profile: Profile) -> Iterator[str]:
    from reproduce.engine import model_source
    from reproduce.running.launch import CACHE

    source = model_source.resolve(profile.model, CACHE)
    if profile.topology.nodes > 1:
        yield "# NODE0 is the address of node 0; set it on every node."
    if source.env:
        yield shlex.join(["cd", str(source.workdir)])
    for index, arm in enumerate(profile.arms):
        port = profile.server.port or _PORT
        if profile.schedule == "resident":
            port += index
        yield f"\n# {arm}"
        for node in _nodes(profile):
            if node is not None:
                yield f"# node {node.rank}"
            arguments = vllm_contract.serve_arguments(profile, arm, source.name, port, node)
            env = {**source.env, **vllm_contract.serve_env(profile, arm)}
            yield _pasted([*_program(profile), *arguments], env)
        yield f"# {arm}, once it answers: the rungs" + (
            ", on node 0" if profile.topology.nodes > 1 else ""
        )
        for rung in profile.ladder:
            yield from _rung(profile, arm, rung, source, port)


def _nodes(profile: Profile) -> Iterator[vllm_contract.NodeRank | None]:
    count = profile.topology.nodes
    port = profile.server.master_port or _MASTER_PORT
    if count == 1:
        yield None
        return
    for rank in range(count):
        yield vllm_contract.NodeRank(rank, count, NODE0, port)


def _rung(
    profile: Profile, arm: str, rung: Rung, source: "ModelSource", port: int
) -> Iterator[str]:
    again = range(2, profile.repeats + 1) if profile.client.seeded else ()
    seeds = ", ".join(str(vllm_contract.rung_seed(profile, rung, repeat)) for repeat in again)
    yield f"# {rung.name}" + (f"; again with --seed {seeds}" if seeds else "")
    result = f"{arm}__{rung.name}.json"
    arguments = vllm_contract.bench_arguments(profile, rung, 1, source.name, port, result)
    yield _pasted([*_program(profile), "bench", "serve", *arguments], source.env)


def _program(profile: Profile) -> list[str]:
    """``vllm``, which only vLLM's own distribution has in working order."""
    cpu_build = provenance.package_version("vllm") is None and provenance.engine_version()
    if cpu_build and profile.topology.gpu is None:
        return [sys.executable, "-m", "reproduce.engine.vllm_main"]
    return ["vllm"]


def _pasted(argv: Sequence[str], env: Mapping[str, str]) -> str:
    """A command as a shell takes it, a flag never parted from its value."""
    units = [f"{name}={shlex.quote(value)}" for name, value in env.items()]
    for word in argv:
        quoted = word if word == NODE0 else shlex.quote(word)
        if units and units[-1].startswith("--") and " " not in units[-1] and word[:2] != "--":
            units[-1] += f" {quoted}"
        else:
            units.append(quoted)
    lines = [""]
    for unit in units:
        if lines[-1] and len(lines[-1]) + len(unit) > _WIDTH:
            lines.append("  ")
        lines[-1] += unit if not lines[-1].strip() else f" {unit}"
    return " \\\n".join(lines)
