"""The article's section on the kept run, as bound values."""

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from reproduce import tables
from reproduce.article.commands import run_command
from reproduce.article.raw import REFERENCE, quoted, source, whole
from reproduce.engine import logs
from reproduce.outside.provenance import REPO
from reproduce.outside.rundir import RunDir
from reproduce.pages import figures
from reproduce.pages.ladder_values import Origins, article_rows
from reproduce.pages.lineage import Bound, rounded, worded
from reproduce.reading import analysis, judgement
from reproduce.schemas import LaunchFacts

_MACHINE = {"cpu": "processor", "cores": "cores", "memory_gib": "memory in GiB"}


def reference(run: RunDir) -> dict[str, Any]:
    """The kept run: its verdict in its own words, its ladder, its engines, its machine."""
    manifest, everything = f"{REFERENCE}/manifest.json", whole(REFERENCE)
    verdict, frame = judgement.verdict_of(run), analysis.measurements(run)
    speed = tables.ladder_table(frame, run.profile, "total_tok_s").set_index("rung", drop=False)
    origins = Origins(frame, run.manifest.files, "reference.", f"{REFERENCE}/")
    counts = {
        "launches": tables.launches_per_arm(frame),
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
            {"workload": _workload(row, place), **cells}
            for place, ((_, row), cells) in enumerate(
                zip(speed.iterrows(), article_rows(run.profile, origins), strict=True)
            )
        ],
        **{
            name: rounded(f"reference.{name}", float(count), 0, everything, ways[name])
            for name, count in counts.items()
        },
        "margin": rounded("reference.margin", 100 * run.profile.margin, 0,
                          [source(f"{REFERENCE}/profile.yaml", "/margin")], "times 100", "%"),
        "engines": list(_engines(run, analysis.engine_facts(run))),
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


def _workload(row: "pd.Series[Any]", place: int) -> Bound:
    rung, text = str(row["rung"]), str(row["workload"])
    pointer = "/mean_tpot_over" if rung == "mean" else f"/ladder/{place}"
    planned = [source(f"{REFERENCE}/profile.yaml", pointer)]
    return worded(f"reference.{rung}.workload", text, planned, "tables.workload")


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
                log = logs.stored(run.start_dir(arm, facts.launch, facts.start) / "engine.log")
                origin = [source(log.relative_to(REPO).as_posix(), name)]
                text = _said(getattr(facts.engine, name))
            cells.append(worded(f"reference.{arm}.{name}", text, origin, "engine_log.parse_log"))
        yield label, cells


def _said(value: Any) -> str:
    """A fact of a log: how many where it is a list, a dash where the log does not say."""
    if isinstance(value, tuple):
        value = len(value)
    return "–" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
