"""How much longer vLLM's own sweep takes for the same ladder.

    python benchmarks/sweep_serve.py [--profile cpu] [--rungs c1,c4] [--repeats 3] [--rounds 2]

Run it where nothing else runs: on a busy machine one way waits for quiet and the other does not.

Compared are two ways to the same client results, turn by turn in one run (A B, B A, ...):

- *reproduce*: `reproduce.running.measure.measure` into a fresh run directory, all of it: both
  arms' servers started together, the reference computed, eight questions to each arm, the probe
  around every slice, waiting for a quiet machine, slices of a disturbed one measured again, every
  file written. Notebooks and report are left out.
- *sweep*: `vllm bench sweep serve` of the installed vLLM, all of it: one arm's server after the
  other, a new process of `vllm bench serve` for every rung and repeat, caches reset after each.

Both get the same model, `vllm serve` flags and environment, and for every rung the same
`vllm bench serve` flags, warm-ups included: those that the profile gives. What each tool does by
itself stays as it is, so the sweep sends one seed in all repeats, and polls for readiness by its
own clock. An untimed launch of both arms comes first, so that neither way compiles. A turn's time
is that of the whole tool, from nothing running to nothing running.
"""

import argparse
import json
import os
import shlex
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from reproduce.engine import model_source
from reproduce.engine.model_source import ModelSource
from reproduce.engine.process import GuardedProcess
from reproduce.engine.server import free_port
from reproduce.outside import profile_store
from reproduce.outside.rundir import RunDir
from reproduce.plan import ladder, vllm_contract
from reproduce.profile import Profile
from reproduce.running.launch import CACHE, Launch
from reproduce.running.measure import measure
from reproduce.verdicts.conditions import serve_flags

WANTED = 1.5
TOOLS = ("reproduce", "sweep")


def chosen(options: argparse.Namespace) -> Profile:
    """The profile with one launch, the asked repeats and the asked part of its ladder."""
    profile = profile_store.load(
        options.profile, {"launches": 1, "repeats": options.repeats, "precision": None}
    )
    if any(arm.env for arm in profile.arms.values()) or profile.launcher != "local":
        raise SystemExit("a sweep cannot start an arm with an environment of its own, or by Slurm")
    rungs = options.rungs.split(",") if options.rungs else [rung.name for rung in profile.ladder]
    parts = [rung.model_dump(mode="json") for rung in profile.ladder if rung.name in rungs]
    return profile_store.changed(profile, {"ladder": parts, "mean_tpot_over": []})


def warm_caches(profile: Profile, folder: Path) -> None:
    run = RunDir.create(folder / "warm", profile, {})
    source = model_source.resolve(profile.model, CACHE)
    for block in ladder.blocks(profile, 1):
        with Launch(run, block, source):
            pass


def by_reproduce(profile: Profile, folder: Path) -> int:
    run = RunDir.create(folder, profile, {})
    measure(run)
    return len(run.records())


def by_sweep(profile: Profile, folder: Path) -> int:
    source = model_source.resolve(profile.model, CACHE)
    folder.mkdir()
    command = sweep_command(profile, source, folder)
    env = {
        **os.environ,
        **source.env,
        "VLLM_CACHE_ROOT": os.path.relpath(CACHE / "vllm", source.workdir),
        **vllm_contract.serve_env(profile, profile.baseline),
    }
    log = folder / "sweep.log"
    process = GuardedProcess(command, env=env, workdir=source.workdir, log=log, stop_timeout_s=15)
    try:
        status = process.guard.wait()
    finally:
        process.stop()
    results = [json.loads(path.read_text()) for path in folder.glob("results/*/*/run=*.json")]
    wanted = len(profile.arms) * len(profile.ladder) * profile.repeats
    whole = [found for found in results if found["completed"] == found["num_prompts"]]
    if status or len(whole) != wanted:
        print(log.read_text(errors="replace")[-3000:], file=sys.stderr)
        raise SystemExit(f"the sweep gave {len(whole)} of {wanted} results, status {status}")
    return len(whole)


def sweep_command(profile: Profile, source: ModelSource, folder: Path) -> list[str]:
    vllm = folder / "vllm"
    words = [sys.executable, "-m", "reproduce.engine.vllm_main"]
    vllm.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    vllm.chmod(0o755)
    port = free_port(profile.server.address)
    shared, *serve_params = serve_commands(profile, source.name, port)
    files = {"serve": serve_params, "bench": bench_parameters(profile, source.name, port)}
    for name, parameters in files.items():
        (folder / f"{name}.json").write_text(json.dumps(parameters))
    return [
        str(vllm), "bench", "sweep", "serve",
        "--serve-cmd", shlex.join([str(vllm), *shared]),
        "--bench-cmd", shlex.join([str(vllm), "bench", "serve"]),
        "--serve-params", str(folder / "serve.json"),
        "--bench-params", str(folder / "bench.json"),
        "--num-runs", str(profile.repeats),
        "--server-ready-timeout", str(round(profile.server.ready_timeout_s)),
        "--output-dir", str(folder / "results"),
    ]  # fmt: skip


def serve_commands(profile: Profile, model: str, port: int) -> list[Any]:
    """What the servers share, as words, then what each arm adds, as a mapping."""
    bare = profile_store.changed(profile, {f"arms.{arm}.serve": {} for arm in profile.arms})
    shared = vllm_contract.serve_arguments(bare, profile.baseline, model, port)
    return [shared, *(dict(arm.serve) for arm in profile.arms.values())]


def bench_parameters(profile: Profile, model: str, port: int) -> list[dict[str, Any]]:
    """Every rung's flags; the sweep adds those that say where the result goes."""
    found = []
    for rung in profile.ladder:
        words = vllm_contract.bench_arguments(profile, rung, 1, model, port, "unused")
        flags = serve_flags(words)
        del flags["result-filename"]
        switches = {"on": True, "off": False}
        parameters = {name: switches.get(value, value) for name, value in flags.items()}
        found.append({"_benchmark_name": rung.name, **parameters})
    return found


def turns(rounds: int) -> list[str]:
    return [
        tool for number in range(1, rounds + 1) for tool in ladder.alternation(TOOLS, number, 0)
    ]


def report(taken: Sequence[tuple[str, float, int]]) -> None:
    """The whole, which the bar is about, and a slice: one tool repeats what was disturbed."""
    whole = ratio({t: [s for name, s, _ in taken if name == t] for t in TOOLS}, "the whole")
    ratio({t: [s / slices for name, s, slices in taken if name == t] for t in TOOLS}, "a slice")
    print(f"{WANTED} times is wanted of the whole: {'met' if whole >= WANTED else 'missed'}")


def ratio(seconds: Mapping[str, Sequence[float]], what: str) -> float:
    ours, theirs = (statistics.median(seconds[tool]) for tool in TOOLS)
    print(f"{what}: {TOOLS[0]} {ours:.1f} s, {TOOLS[1]} {theirs:.1f} s, {theirs / ours:.2f} times")
    return theirs / ours


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--profile", default="cpu")
    parser.add_argument("--rungs", help="names of rungs, by commas; all of them unless given")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=2, help="turns of each tool")
    options = parser.parse_args()
    profile = chosen(options)
    ways = dict(zip(TOOLS, (by_reproduce, by_sweep), strict=True))
    taken = []
    with tempfile.TemporaryDirectory(prefix="sweep-") as scratch:
        warm_caches(profile, Path(scratch))
        for number, tool in enumerate(turns(options.rounds), 1):
            began = time.monotonic()
            slices = ways[tool](profile, Path(scratch) / f"turn-{number}")
            taken.append((tool, time.monotonic() - began, slices))
            print(f"{number}. {tool}: {taken[-1][1]:.1f} s, {slices} slices", flush=True)
    report(taken)


if __name__ == "__main__":
    main()
