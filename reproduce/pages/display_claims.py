"""Claims, confounders and audits → HTML fragments. Everything that comes from a file is escaped."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pandas as pd
from markupsafe import Markup

from reproduce.pages.display import attributes, bound_frame, framed, table, traced
from reproduce.pages.files import Files
from reproduce.pages.lineage import AS_STORED, Bound, Cell, Source, told
from reproduce.verdicts.audit import Outcome
from reproduce.verdicts.claims import Consistency, Judged, Standing

_COLUMNS: Final = ("the article says", "verdict", "found", "its own data")


@dataclass(frozen=True)
class ClaimSources:
    """Where the words on one claim come from.

    Attributes:
        stated: the claim itself.
        decided: what its verdict was found in.
        own: what the article's own data on it are.
    """

    stated: tuple[Source, ...]
    decided: tuple[Source, ...]
    own: tuple[Source, ...]


def claims(
    judged: Sequence[Judged], sources: Sequence[ClaimSources], counted_in: Sequence[Source]
) -> str:
    """Every claim in a table that a script, where there is one, can filter.

    Args:
        judged: the claims.
        sources: of each.
        counted_in: what the counts of verdicts come from.
    """
    rows = Markup("").join(_claim(one, places) for one, places in zip(judged, sources, strict=True))
    header = Markup("").join(Markup('<th scope="col">{}</th>').format(name) for name in _COLUMNS)
    return Markup("<p>{}</p>{}{}").format(
        traced(told("claims.counts", summary(judged), counted_in, "count")),
        _filters(judged, counted_in),
        framed(header, Markup("<tbody>{}</tbody>").format(rows), "Statements of the article"),
    )


def _claim(one: Judged, sources: ClaimSources) -> Markup:
    claim, answer, name = one.claim, one.answer, f"claim.{one.claim.id}"
    how = f"claims.judge, rule {claim.test.rule}" if claim.test else "claims.judge, published data"
    check = f"claims.judge, rule {claim.check.rule}" if claim.check else "claims.judge"
    own = one.own_data if one.own_data != answer.found else ""
    section = told(f"{name}.section", claim.section, sources.stated, AS_STORED)
    return Markup(
        '<tr data-verdict="{verdict}" data-own="{consistency}" data-section="{in_section}">'
        '<th scope="row">{statement}<br><small>{section}</small></th>'
        '<td><strong class="{kind}">{verdict}</strong><br><small>{scope}</small></td>'
        "<td>{found}</td><td>{own}</td></tr>"
    ).format(
        verdict=answer.standing.value,
        consistency=one.consistency.value,
        in_section=claim.section,
        statement=traced(told(f"{name}.statement", claim.statement, sources.stated, AS_STORED)),
        section=traced(section),
        kind=answer.standing.value.replace(" ", "-"),
        scope=claim.scope,
        found=_with_small(
            told(f"{name}.found", answer.found, sources.decided, how),
            told(f"{name}.note", answer.note, sources.decided, how),
        ),
        own=_with_small(
            one.consistency.value, told(f"{name}.own", own, sources.own, check)
        ),
    )  # fmt: skip


def _with_small(text: Cell, note: Cell) -> Markup:
    shown = Markup("{}").format(traced(text))
    return shown + Markup("<br><small>{}</small>").format(traced(note)) if note else shown


def _filters(judged: Sequence[Judged], sources: Sequence[Source]) -> Markup:
    """Hidden without a script, which could not filter anything."""
    sections = dict.fromkeys(one.claim.section for one in judged)
    choices = {
        "verdict": ("verdict", [s.value for s in Standing]),
        "own": ("its own data", [c.value for c in Consistency]),
        "section": ("section", list(sections)),
    }
    fields = [_choice(key, *choice, sources) for key, choice in choices.items()]
    shown = told("claims.shown", f"all {len(judged)} claims", sources, "count of the rows shown")
    return Markup(
        '<form class="filters" hidden aria-label="Which claims are shown">{fields}'
        '<label>text <input type="search" name="text"></label>'
        '<button type="reset">all claims</button>'
        "<output{about}>{shown}</output></form>"
    ).format(
        fields=Markup("").join(fields),
        about=attributes(shown) if isinstance(shown, Bound) else "",
        shown=shown.printed if isinstance(shown, Bound) else shown,
    )


def _choice(key: str, label: str, values: Sequence[str], sources: Sequence[Source]) -> Markup:
    options = Markup("").join(Markup("<option>{}</option>").format(value) for value in values)
    about = told(f"claims.{key}", ", ".join(values), sources, AS_STORED)
    return Markup(
        '<label>{label} <select name="{key}"{about}><option value="">any</option>{options}'
        "</select></label>"
    ).format(
        label=label, key=key, options=options,
        about=attributes(about) if isinstance(about, Bound) else "",
    )  # fmt: skip


def summary(judged: Sequence[Judged]) -> str:
    """How many claims have each verdict, and how many the article's own data bear out."""
    standings = Counter(one.answer.standing for one in judged)
    own = Counter(one.consistency for one in judged)
    verdicts = ", ".join(f"{standings[s]} {s.value}" for s in Standing)
    data = ", ".join(f"{own[c]} {c.value}" for c in Consistency)
    return f"{len(judged)} claims: {verdicts}. The article's own data: {data}."


_WITNESSES: Final[Mapping[str, tuple[str, str]]] = {
    "flags beyond the one under test": ("command.json", "/argv"),
    "remote code": ("command.json", "/argv"),
    "failed launches": ("failure.json", "/problem"),
    "different versions": ("engine*.log*", "version"),
    "missing fusion": ("engine*.log*", "fusions"),
    "different KV capacity": ("engine*.log*", "kv_tokens"),
    "prefix-cache hits": (".record.json", "/after/prefix_cache_hits"),
    "server busy at the start": (".record.json", "/before"),
    "too few warm-ups": (".record.json", "/warmups"),
    "loaded machine": (".record.json", "/probes/disturbed"),
    "invalid rungs": (".record.json", "/valid"),
    "trend over the repeats": ("results", "/total_token_throughput"),
    "results that contradict themselves": ("results", ""),
}
"""Rule on confounders → the raw files that it looks at, by their ending, and the place in each."""


def confounders(frame: pd.DataFrame, files: Files) -> str:
    """What was found, and which rules found nothing."""
    found = frame[frame["found"] != ""].reset_index(drop=True)
    quiet = ", ".join(frame.loc[frame["found"] == "", "rule"])
    note = Markup("<p>Looked for and not found: {}.</p>").format(quiet) if quiet else Markup("")
    if found.empty:
        return note
    words: list[Cell] = [
        told(f"confounder.{n}", text, _seen(rule, files), f"confounders.find, {rule}")
        for n, (rule, text) in enumerate(zip(found["rule"], found["found"], strict=True))
    ]
    shown = found.assign(found=pd.Series(words, dtype=object))
    return Markup("{}{}").format(table(shown, caption="What else could explain the result"), note)


def _seen(rule: str, files: Files) -> list[Source]:
    ending, place = _WITNESSES.get(rule, ("results", ""))
    looked_at = files.results(place) if ending == "results" else files.like(f"raw/*{ending}", place)
    return looked_at or files.at("manifest.json", "/files")


def audit(frame: pd.DataFrame, files: Files) -> str:
    """What does not hold, and how much does; see `judgement.audit_frame`."""
    if frame.empty:
        return Markup("<p>No result file is on file.</p>")
    sources, how = files.results(), "audit.audit, count"
    counts = ", ".join(f"{int(frame[o.value].sum()):,} {o.value}" for o in Outcome)
    summed = f"{len(frame)} identities of an honest result: {counts}."
    text = Markup("<p>{}</p>").format(traced(told("audit.counts", summed, sources, how)))
    bad = [Outcome.VIOLATED.value, Outcome.NOTE.value]
    told_of = frame[frame[bad].sum(axis=1) > 0].reset_index(drop=True)
    if told_of.empty:
        return text
    columns = ["identity", *bad, "first finding"]
    shown = bound_frame(told_of[columns], "audit", lambda _: sources, how, 0, {})
    return Markup("{}{}").format(
        text, table(shown, caption="Identities that do not hold everywhere")
    )


def invalid(frame: pd.DataFrame, files: Files) -> str:
    """Attempts that do not count, each with its record: arm, launch, rung, repeat and reasons."""
    rows = []
    for n, row in enumerate(frame.to_dict("records")):
        stem = str(row["source"]).removesuffix(".json").removesuffix(".record")
        slot, reasons = (
            files.at(f"{stem}.record.json", key) or files.like(f"{stem}.invalid-*.record.json", key)
            for key in ("/slot", "/reasons")
        )
        where = f"{row['arm']}, launch {row['launch']}, {row['rung']}, repeat {row['repeat']}"
        rows.append(
            {
                "attempt": told(f"invalid.{n}.slot", where, slot, AS_STORED),
                "why": told(f"invalid.{n}.reasons", str(row["reasons"]), reasons, AS_STORED),
            }
        )
    return table(pd.DataFrame(rows), caption="Repeats that do not count")
