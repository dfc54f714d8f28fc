"""Frames and facts → HTML fragments. Everything that comes from a file is escaped."""

import base64
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from reproduce.evidence import Scope, head, missing_fusions
from reproduce.fusions import EXPECTED_FUSIONS
from reproduce.profile import Profile
from reproduce.schemas import EngineFacts, LaunchFacts, Manifest

if TYPE_CHECKING:
    # Named in signatures only; importing them would cost every notebook a second.
    from reproduce.figures import Theme
    from reproduce.ladder_values import Cell
    from reproduce.lineage import Bound
    from reproduce.metrics import Metric
    from reproduce.verdict import Verdict

_MISSING = "–"


def number(value: Any, digits: int, unit: str = "") -> str:
    """A number with thousands separators, or a dash where it is missing."""
    if value is None or pd.isna(value):
        return _MISSING
    return f"{value:,.{digits}f}{unit}"


def table(frame: pd.DataFrame, caption: str) -> str:
    """A frame as an accessible table that scrolls by itself on a narrow screen."""
    names = list(frame.columns)
    kinds = ["num" if pd.api.types.is_numeric_dtype(frame[n]) or _numeric(frame[n]) else "text"
             for n in names]  # fmt: skip
    header = Markup("").join(
        Markup('<th scope="col" class="{}">{}</th>').format(kind, name)
        for name, kind in zip(names, kinds, strict=True)
    )
    rows = Markup("").join(
        Markup("<tr>{}</tr>").format(
            Markup("").join(
                Markup('<th scope="row">{}</th>').format(_say(cell))
                if place == 0
                else Markup('<td class="{}">{}</td>').format(kind, _say(cell))
                for place, (cell, kind) in enumerate(zip(row, kinds, strict=True))
            )
        )
        for row in frame.itertuples(index=False, name=None)
    )
    return Markup(
        '<div class="table" role="region" tabindex="0" aria-label="{caption}"><table>'
        "<caption>{caption}</caption><thead><tr>{header}</tr></thead><tbody>{rows}</tbody>"
        "</table></div>"
    ).format(caption=caption, header=header, rows=rows)


def _numeric(column: pd.Series) -> bool:
    shown = [v.striptags() if isinstance(v, Markup) else str(v) for v in column]
    texts = [text for text in shown if text != _MISSING]
    return bool(texts) and all(t[:1].isdigit() or t[:1] in "-+±" for t in texts)


def _say(value: Any) -> Any:
    if isinstance(value, Markup):
        return value
    if value is None or value is pd.NA or (isinstance(value, float) and np.isnan(value)):
        return _MISSING
    return value


def article_table(
    workloads: Sequence[str], rows: "Sequence[Mapping[str, Cell]]", profile: Profile
) -> str:
    """The article's columns; see :func:`reproduce.ladder_values.article_rows`."""
    base, tried = profile.baseline, profile.candidate
    columns = {
        "base": f"{base} total tok/s",
        "tried": f"{tried} total tok/s",
        "percent": f"% of {base}",
        "base_tpot": f"{base} TPOT, ms",
        "tried_tpot": f"{tried} TPOT, ms",
        "percent_tpot": f"TPOT, % of {base}",
    }
    caption = "Total token throughput (input and output) and TPOT, both arms"
    return _traced_table(workloads, rows, columns, caption)


def ladder_table(
    workloads: Sequence[str], rows: "Sequence[Mapping[str, Cell]]", metric: "Metric",
    profile: Profile,
) -> str:  # fmt: skip
    """One metric; see :func:`reproduce.ladder_values.ladder_row`."""
    base, tried = profile.baseline, profile.candidate
    columns = {
        "base": f"{base} ({metric.unit})",
        "tried": f"{tried} ({metric.unit})",
        "percent": f"% of {base}",
        "interval": "95 % interval",
        "spread": "single pairs",
        "pairs": "pairs",
        "rounding": "left open by rounding",
    }
    if all(row["rounding"] == _MISSING for row in rows):
        del columns["rounding"]
    caption = f"{metric.label}: medians of the repeats, and {tried} in percent of {base}"
    return _traced_table(workloads, rows, columns, caption)


def _traced_table(
    workloads: Sequence[str], rows: "Sequence[Mapping[str, Cell]]", columns: Mapping[str, str],
    caption: str,
) -> str:  # fmt: skip
    shown = {"workload": list(workloads)}
    shown |= {name: [traced(row[key]) for row in rows] for key, name in columns.items()}
    return table(pd.DataFrame(shown), caption=caption)


def traced(cell: "Cell") -> str:
    """A number that says where it comes from, under the pointer and under the keyboard."""
    if isinstance(cell, str):
        return cell
    return Markup('<span class="bound" tabindex="0" title="{}">{}</span>').format(
        cell.origin, cell.printed
    )


def lineage(bounds: "Sequence[Bound]") -> str:
    """Where every number of the ladder's tables comes from."""
    frame = pd.DataFrame(
        {
            "number": [bound.id for bound in bounds],
            "printed": [f"{bound.printed} {bound.unit}".strip() for bound in bounds],
            "where it comes from": [bound.origin for bound in bounds],
            "sha256": [bound.digest[:12] for bound in bounds],
        }
    )
    return Markup(
        "<details><summary>{} numbers, each with its raw files</summary>{}</details>"
    ).format(len(bounds), table(frame, caption="Where the numbers come from"))


def verdict(found: "Verdict") -> str:
    """The box on top of the report."""
    limits = Markup("").join(Markup("<li>{}</li>").format(text) for text in found.limits)
    return Markup(
        '<section class="verdict {kind}" aria-label="Verdict"><p class="label">{label}</p>'
        '<p class="headline">{headline}</p><ul>{limits}</ul></section>'
    ).format(
        kind=found.label.name.lower().replace("_", "-"),
        label=found.label.value,
        headline=found.headline,
        limits=limits,
    )


def figure(svgs: "Mapping[Theme, bytes]", alt: str) -> str:
    """A figure in the reader's theme, inside the page itself."""
    urls = {
        theme: "data:image/svg+xml;base64," + base64.b64encode(data).decode()
        for theme, data in svgs.items()
    }
    return Markup(
        '<figure><picture><source media="(prefers-color-scheme: dark)" srcset="{dark}">'
        '<img src="{light}" alt="{alt}"></picture></figure>'
    ).format(dark=urls["dark"], light=urls["light"], alt=alt)


def engines(facts: Sequence[LaunchFacts], profile: Profile) -> str:
    """One column per arm's first start, one row per fact."""
    first = {f.arm: f for f in reversed(facts)}
    if not first:
        return Markup("<p>No engine log is on file.</p>")
    labels: dict[str, Any] = {
        "vLLM version": lambda e: e.version,
        "resolved architecture": lambda e: e.architecture,
        "modeling backend": lambda e: e.backend,
        "attention backend": lambda e: e.attention_backend,
        "MLA prefill backend": lambda e: e.prefill_backend,
        "custom fusions enabled": lambda e: ", ".join(e.custom_fusions),
        "torch.compile": lambda e: {True: "on", False: "off", None: None}[e.compiled],
        "fused modules": lambda e: len(e.fusions) or None,
        "load time": lambda e: number(e.load_s, 2, " s"),
        "weight memory per worker": lambda e: _gib(e.weights_gib),
        "KV cache memory per worker": lambda e: _gib(e.kv_memory_gib),
        "KV cache size": lambda e: number(e.kv_tokens, 0, " tokens"),
        "maximum model length": lambda e: number(e.max_model_len, 0, " tokens"),
        "full-length requests at once": lambda e: number(e.max_concurrency, 2, "×"),
    }
    rows: dict[str, list[Any]] = {"from the log": [*labels, "start to ready"]}
    for arm in profile.arms:
        if (found := first.get(arm)) is None:
            rows[arm] = ["no log"] + [_MISSING] * len(labels)
            continue
        rows[arm] = [say(found.engine) or _MISSING for say in labels.values()]
        rows[arm].append(number(found.ready_s, 0, " s"))
    return table(pd.DataFrame(rows), caption="What each engine's log shows")


def _gib(values: Sequence[float]) -> str:
    return ", ".join(f"{v:g} GiB" for v in dict.fromkeys(values))


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
            architecture or "this architecture"
        )
    frame = pd.DataFrame(rows, columns=["module", "mapped onto", "log"])
    return table(frame, caption="Modules that the Transformers backend must map, and the log")


def scope(found: Scope) -> str:
    """Objections and notes as a list."""
    sentence = (
        "Both engines are what the claim is about."
        if found.is_test
        else "Not a test of the claim: " + "; ".join(found.objections) + "."
    )
    notes = Markup("").join(Markup("<li>{}</li>").format(note) for note in found.notes)
    return Markup("<p>{}</p><ul>{}</ul>").format(sentence, notes)


def agreement(frame: pd.DataFrame) -> str:
    """Answers compared, pair by pair; see :func:`reproduce.analysis.agreement_table`."""
    shown = pd.DataFrame(
        {
            "compared": [
                f"{a} and {b}" for a, b in zip(frame["first"], frame["second"], strict=True)
            ],
            "launch": [str(launch) for launch in frame["launch"]],
            "answers": frame["answers"],
            "equal answers": [
                f"{equal} of {prompts}" if prompts else _MISSING
                for equal, prompts in zip(frame["equal"], frame["prompts"], strict=True)
            ],
            "nine in ten differ by less than": [number(v, 3, " nats") for v in frame["usual"]],
            "largest difference": [number(v, 2, " nats") for v in frame["largest"]],
        }
    )
    return table(shown, caption="Greedy answers to the same prompts: tokens and log-probabilities")


def commands(found: Mapping[str, Mapping[str, Any]]) -> str:
    """Each arm's command, as it can be pasted."""
    if not found:
        return Markup("<p>No command is on file.</p>")
    blocks = []
    for arm, command in found.items():
        env = [f"{key}={shlex.quote(value)}" for key, value in command["env"].items()]
        text = " \\\n  ".join([*env, shlex.join(command["argv"])])
        blocks.append(Markup("<h4>{}</h4><pre>{}</pre>").format(arm, text))
    return Markup("").join(blocks)


def provenance(manifest: Manifest, changed: Sequence[str]) -> str:
    """The manifest's facts, and the state of the raw files."""
    rows = [("run", manifest.run_id), ("profile", manifest.profile)]
    rows.append(("created", f"{manifest.created_at:%Y-%m-%d %H:%M} UTC"))
    for group, facts in manifest.provenance.items():
        pairs = facts.items() if isinstance(facts, dict) else [("", facts)]
        rows += [(f"{group} {key}".strip(), str(value)) for key, value in pairs]
    state = "as written" if not changed else f"changed or missing: {', '.join(changed)}"
    rows.append(("raw files", f"{len(manifest.files)} listed with sha256, {state}"))
    return table(pd.DataFrame(rows, columns=["fact", "value"]), caption="Where the run was made")
