"""What engines logged, answered and were told → HTML fragments. What files say is escaped."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pandas as pd
from markupsafe import Markup

from reproduce.evidence.engine_log import Scope, head, missing_fusions
from reproduce.evidence.fusions import EXPECTED_FUSIONS
from reproduce.pages.display import table, traced
from reproduce.pages.files import Files, pointer
from reproduce.pages.lineage import AS_STORED, MISSING, Cell, Source, counted, told
from reproduce.profile import Profile
from reproduce.schemas import EngineFacts, LaunchFacts, Manifest

_READ: Final = "engine_log.parse_log"


def _sizes(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in dict.fromkeys(values))


_SHOWN: Final[Mapping[str, tuple[str, str, Callable[[EngineFacts], str | float | None]]]] = {
    "vLLM version": ("version", "", lambda e: e.version),
    "resolved architecture": ("architecture", "", lambda e: e.architecture),
    "modeling backend": ("backend", "", lambda e: e.backend),
    "attention backend": ("attention_backend", "", lambda e: e.attention_backend),
    "MLA prefill backend": ("prefill_backend", "", lambda e: e.prefill_backend),
    "custom fusions enabled": ("custom_fusions", "", lambda e: ", ".join(e.custom_fusions)),
    "torch.compile": ("compiled", "", lambda e: {True: "on", False: "off", None: None}[e.compiled]),
    "fused modules": ("fusions", "", lambda e: str(len(e.fusions) or "")),
    "load time, s": ("load_s", "s", lambda e: e.load_s),
    "weight memory per worker, GiB": ("weights_gib", "GiB", lambda e: _sizes(e.weights_gib)),
    "KV cache memory per worker, GiB": ("kv_memory_gib", "GiB", lambda e: _sizes(e.kv_memory_gib)),
    "KV cache size, tokens": ("kv_tokens", "tokens", lambda e: e.kv_tokens),
    "maximum model length, tokens": ("max_model_len", "tokens", lambda e: e.max_model_len),
    "full-length requests at once": ("max_concurrency", "requests", lambda e: e.max_concurrency),
}
"""Row → fact of the log, unit, and how it is said."""


def engines(facts: Sequence[LaunchFacts], profile: Profile, files: Files) -> str:
    """One column per arm's first start, one row per fact."""
    first = {f.arm: f for f in reversed(facts)}
    if not first:
        return Markup("<p>No engine log is on file.</p>")
    labels: list[Cell] = [*_SHOWN, "start to ready, s"]
    columns: dict[str, list[Cell]] = {"from the log": labels}
    for arm in profile.arms:
        if (found := first.get(arm)) is None:
            columns[arm] = ["no log", *(MISSING for _ in _SHOWN)]
            continue
        start = f"raw/{arm}/launch-{found.launch:02d}/start-{found.start:02d}"
        columns[arm] = [
            _fact(
                f"{arm}.{fact}", say(found.engine), files.like(f"{start}/engine*.log*", fact), unit
            )
            for fact, unit, say in _SHOWN.values()
        ]
        ready = files.at(f"{start}/facts.json", "/ready_s")
        columns[arm].append(counted(f"{arm}.ready_s", found.ready_s, 0, ready, AS_STORED, "s"))
    return table(pd.DataFrame(columns), caption="What each engine's log shows")


def _fact(name: str, value: str | float | None, sources: Sequence[Source], unit: str) -> Cell:
    if isinstance(value, int | float):
        return counted(name, value, 0 if isinstance(value, int) else 2, sources, _READ, unit)
    return told(name, value or MISSING, sources, _READ, unit)


def fusions(candidate: EngineFacts | None, architecture: str | None) -> str:
    """Expected against found, and what was found beyond the expected."""
    if candidate is None:
        return Markup("<p>The candidate has no engine log on file.</p>")
    expected = EXPECTED_FUSIONS.get(architecture or "", ())
    missing = missing_fusions(candidate, architecture)
    wanted = {(f.source, f.target) for f in expected}
    rows = [(f.source, f.target, "missing" if f in missing else "found") for f in expected]
    rows += [
        (f.source, f.target, "found, not required")
        for f in candidate.fusions
        if (f.source, head(f.target)) not in wanted
    ]
    if not rows:
        return Markup("<p>The log shows no fusion, and none is listed for {}.</p>").format(
            _code(architecture) if architecture else "this architecture"
        )
    frame = pd.DataFrame(
        [(_code(source), _code(target), state) for source, target, state in rows],
        columns=["module", "mapped onto", "log"],
    )
    return table(frame, caption="Modules that the Transformers backend must map, and the log")


def _code(name: str) -> Markup:
    return Markup("<code>{}</code>").format(name)


def scope(found: Scope, files: Files) -> str:
    """Objections and notes as a list."""
    witnesses = [
        *files.like("raw/*/launch-*/start-*/engine*.log*", "facts"),
        *files.like("raw/*agreement.json", "/answers"),
    ]
    sentence = (
        "Both engines are what the claim is about."
        if found.is_test
        else "Not a test of the claim: " + "; ".join(found.objections) + "."
    )
    notes = Markup("").join(
        Markup("<li>{}</li>").format(
            traced(told(f"scope.note.{n}", note, witnesses, "analysis.scope"))
        )
        for n, note in enumerate(found.notes)
    )
    shown = traced(told("scope", sentence, witnesses, "analysis.scope"))
    return Markup("<p>{}</p><ul>{}</ul>").format(shown, notes)


def agreement(frame: pd.DataFrame, files: Files, reference: str) -> str:
    """Answers compared, pair by pair.

    Args:
        frame: see :func:`reproduce.reading.analysis.agreement_table`.
        files: the run's.
        reference: how the frame calls the reference.
    """
    shown = []
    for row in frame.to_dict("records"):
        launch, compared = row["launch"], (row["first"], row["second"])
        pair = " and ".join(compared)
        name, how = f"agreement.{launch}.{pair}", "agreement.compare"
        sources = [
            source
            for arm in compared
            for source in files.like(
                "raw/reference/agreement.json" if arm == reference
                else f"raw/{arm}/launch-{launch:02d}/start-*/agreement.json", "/answers",
            )
        ] or files.at("manifest.json", "/files")  # fmt: skip
        equal = f"{row['equal']} of {row['prompts']}" if row["prompts"] else MISSING
        usual = counted(f"{name}.usual", row["usual"], 3, sources, how, "nats")
        largest = counted(f"{name}.largest", row["largest"], 2, sources, how, "nats")
        shown.append(
            {
                "compared": pair,
                "launch": told(f"{name}.launch", str(launch), sources, "part of the path"),
                "answers": row["answers"],
                "equal answers": told(f"{name}.equal", equal, sources, how, "prompts"),
                "nine in ten differ by less than, nats": usual,
                "largest difference, nats": largest,
            }
        )
    caption = "Greedy answers to the same prompts: tokens and log-probabilities"
    return table(pd.DataFrame(shown), caption=caption)


def commands(found: Mapping[str, Mapping[str, Any]]) -> str:
    """Each arm's command, as it can be pasted."""
    if not found:
        return Markup("<p>No command is on file.</p>")
    blocks = []
    for arm, command in found.items():
        env = [f"{key}={shlex.quote(value)}" for key, value in command["env"].items()]
        text = " \\\n  ".join([*env, shlex.join(command["argv"])])
        name = f"raw/{arm}/launch-01/start-01/command.json"
        blocks.append(
            Markup("<h4>{}</h4><p>From <code>{}</code>:</p><pre>{}</pre>").format(arm, name, text)
        )
    return Markup("").join(blocks)


def provenance(manifest: Manifest, changed: Sequence[str], files: Files) -> str:
    """The manifest's facts, and the state of the raw files."""
    rows = [_stored(("run_id",), "run", manifest.run_id, files)]
    rows.append(_stored(("profile",), "profile", manifest.profile, files))
    created = f"{manifest.created_at:%Y-%m-%d %H:%M} UTC"
    rows.append(_stored(("created_at",), "created", created, files, "to the minute"))
    for group, facts in manifest.provenance.items():
        pairs = facts.items() if isinstance(facts, dict) else [("", facts)]
        for key, value in pairs:
            keys = ("provenance", group, key) if key else ("provenance", group)
            rows.append(_stored(keys, f"{group} {key}".strip(), str(value), files))
    state = "as written" if not changed else f"changed or missing: {', '.join(changed)}"
    count = f"{len(manifest.files)} listed with sha256, {state}"
    rows.append(_stored(("files",), "raw files", count, files, "count"))
    return table(pd.DataFrame(rows, columns=["fact", "value"]), caption="Where the run was made")


def _stored(
    keys: Sequence[str], label: str, text: str, files: Files, how: str = AS_STORED
) -> tuple[str, Cell]:
    place = pointer(*keys)
    return label, told(f"manifest{place}", text, files.at("manifest.json", place), how)
