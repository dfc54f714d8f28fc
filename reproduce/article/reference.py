"""The article's section on the kept run, as bound values."""

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from reproduce import figures, judgement, tables
from reproduce.article.commands import run_command
from reproduce.article.raw import KEYS, REFERENCE, quoted, source, whole
from reproduce.confounders import Conditions
from reproduce.lineage import Bound, Source, rounded, worded
from reproduce.provenance import REPO
from reproduce.rundir import RunDir
from reproduce.schemas import LaunchFacts

_MACHINE = {"cpu": "processor", "cores": "cores", "memory_gib": "memory in GiB"}


def reference(run: RunDir, facts: Conditions) -> dict[str, Any]:
    """The kept run: its verdict in its own words, its ladder, its engines, its machine."""
    manifest, everything = f"{REFERENCE}/manifest.json", whole(REFERENCE)
    verdict, frame = judgement.verdict_of(run, facts), facts.measurements
    valid = frame[frame["valid"]]
    speed = tables.ladder_table(frame, run.profile, "total_tok_s").set_index("rung", drop=False)
    decode = tables.article_table(frame, run.profile).set_index("rung")
    counts = {
        "launches": valid[["arm", "launch"]].drop_duplicates().groupby("arm").size().min(),
        "pairs": speed["pairs"]["mean"],
        "invalid": speed["invalid"]["mean"],
    }
    ways = {"launches": "server starts per arm that gave valid repeats", "pairs": "valid pairs",
            "invalid": "repeats that do not count"}  # fmt: skip
    return {
        "label": verdict.label.value,
        "headline": worded("reference.verdict", verdict.headline, everything, "verdict.judge"),
        "limits": [
            worded(f"reference.limit.{place}", text, everything, "verdict.judge")
            for place, text in enumerate(verdict.limits)
        ],
        "rows": [
            _reference_row(run, frame, speed.loc[name], decode.loc[name], place)
            for place, name in enumerate(speed.index)
        ],
        **{
            name: rounded(f"reference.{name}", float(count), 0, everything, ways[name])
            for name, count in counts.items()
        },
        "margin": rounded("reference.margin", 100 * run.profile.margin, 0,
                          [source(f"{REFERENCE}/profile.yaml", "/margin")], "times 100", "%"),
        "engines": list(_engines(run, facts.launches)),
        "id": quoted(manifest, "/run_id"),
        "created": worded("reference.created", f"{run.manifest.created_at:%Y-%m-%d}",
                          [source(manifest, "/created_at")], "day"),
        "machine": [
            (label, quoted(manifest, f"/provenance/machine/{key}"))
            for key, label in _MACHINE.items()
            if key in run.manifest.provenance.get("machine", {})
        ],
        "model": worded("reference.model", run.profile.model.id,
                        [source(f"{REFERENCE}/profile.yaml", "/model/id")], "as stored"),
        "arms": [run.profile.baseline, run.profile.candidate],
        "command": run_command(run),
        "alt": worded("reference.figure", figures.ladder_alt(speed, run.profile), everything,
                      "figures.ladder_alt"),
    }  # fmt: skip


def _reference_row(
    run: RunDir, frame: pd.DataFrame, speed: "pd.Series[Any]", decode: "pd.Series[Any]", place: int
) -> dict[str, Any]:
    rung, arms = str(speed["rung"]), (run.profile.baseline, run.profile.candidate)
    plan = "/mean_tpot_over" if rung == "mean" else f"/ladder/{place}"
    planned = [source(f"{REFERENCE}/profile.yaml", plan)]

    def files(metric: str, *wanted: str) -> list[Source]:
        if rung == "mean":
            return whole(REFERENCE)
        here = frame[frame["valid"] & (frame["rung"] == rung) & frame["arm"].isin(wanted)]
        return [source(f"{REFERENCE}/{name}", KEYS[metric]) for name in here["source"]] or planned

    def bound(key: str, value: Any, digits: int, files: list[Source], how: str, unit: str) -> Bound:
        return rounded(f"reference.{rung}.{key}", float(value), digits, files, how, unit)

    both = files("total_tok_s", *arms)
    ends = [] if pd.isna(speed["low"]) else [f"{speed[end]:.1f}" for end in ("low", "high")]
    return {
        "workload": worded(f"reference.{rung}.workload", str(speed["workload"]), planned,
                           "tables.workload"),
        **{
            f"{key}_{kind}": bound(f"{arm}.{metric}", table[column], digits, files(metric, arm),
                                   "median of the valid repeats", unit)
            for key, arm in zip(("base", "tried"), arms, strict=True)
            for kind, metric, table, column, digits, unit in (
                ("speed", "total_tok_s", speed, arm, 0, "tok/s"),
                ("tpot", "tpot_ms", decode, f"{arm}_tpot_ms", 2, "ms"),
            )
        },
        "percent": bound("percent", speed["percent"], 1, both, "equivalence.compare, ratio", "%"),
        "interval": worded(f"reference.{rung}.interval", " to ".join(ends) or "–", both,
                           "equivalence.compare, low and high", "%"),
        "tpot_percent": bound("tpot_percent", decode["tpot_percent"], 1, files("tpot_ms", *arms),
                              "equivalence.compare, ratio", "%"),
        "pairs": bound("pairs", speed["pairs"], 0, both, "count of valid pairs", ""),
    }  # fmt: skip


def _engines(run: RunDir, launches: Sequence[LaunchFacts]) -> Iterator[tuple[str, list[Bound]]]:
    """What the first log of each arm shows: a name, then one value per arm."""
    first = {facts.arm: facts for facts in reversed(launches)}
    shown = {
        "vLLM version": "version",
        "modeling backend": "backend",
        "attention backend": "attention_backend",
        "fused modules": "fusions",
        "KV cache, tokens": "kv_tokens",
    }
    for label, name in shown.items():
        cells = []
        for arm in (run.profile.baseline, run.profile.candidate):
            text, origin = "–", whole(REFERENCE)
            if facts := first.get(arm):
                log = run.start_dir(arm, facts.launch, facts.start) / "engine.log"
                origin = [source(log.relative_to(REPO).as_posix(), name)]
                text = _said(getattr(facts.engine, name))
            cells.append(worded(f"reference.{arm}.{name}", text, origin, "evidence.parse_log"))
        yield label, cells


def _said(value: Any) -> str:
    """A fact of a log: how many where it is a list, a dash where the log does not say."""
    if isinstance(value, tuple):
        value = len(value)
    return "–" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
