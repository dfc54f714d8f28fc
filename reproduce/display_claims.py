"""Claims, confounders and audits → HTML fragments. Everything that comes from a file is escaped."""

import pandas as pd
from markupsafe import Markup

from reproduce.audit import Outcome
from reproduce.claims import Consistency, Standing
from reproduce.display import table


def claims(frame: pd.DataFrame) -> str:
    """The counts, what is decided, and folded away what is not testable here.

    See :func:`reproduce.judgement.claims_frame`.
    """
    here = frame["verdict"] != Standing.NOT_TESTABLE.value
    others = frame[~here]
    return Markup("<p>{}</p>{}<details><summary>{}</summary>{}</details>").format(
        summary(frame),
        _claims_table(frame[here], "Statements of the article that are decided here"),
        f"{len(others)} not testable here. The article's own data on them: {_own_data(others)}.",
        _claims_table(others, "Statements of the article that are not testable here"),
    )


def _claims_table(frame: pd.DataFrame, caption: str) -> str:
    shown = pd.DataFrame(
        {
            "the article says": frame["statement"],
            "verdict": [
                Markup('<strong class="{}">{}</strong><br><small>{}</small>').format(
                    verdict.replace(" ", "-"), verdict, scope
                )
                for verdict, scope in zip(frame["verdict"], frame["decided by"], strict=True)
            ],
            "found": _with_small(frame["found"], frame["note"]),
            "its own data": _with_small(
                frame["article's own data"],
                frame["found in them"].where(frame["found in them"] != frame["found"], ""),
            ),
        }
    )
    return table(shown, caption=caption)


def _with_small(texts: pd.Series, notes: pd.Series) -> list[str]:
    return [
        Markup("{}<br><small>{}</small>").format(text, note) if note else text
        for text, note in zip(texts, notes, strict=True)
    ]


def summary(frame: pd.DataFrame) -> str:
    """How many claims have each verdict, and how many the article's own data bear out."""
    counts = frame["verdict"].value_counts()
    verdicts = ", ".join(f"{counts.get(s.value, 0)} {s.value}" for s in Standing)
    return f"{len(frame)} claims: {verdicts}. The article's own data: {_own_data(frame)}."


def _own_data(frame: pd.DataFrame) -> str:
    own = frame["article's own data"].value_counts()
    return ", ".join(f"{own.get(c.value, 0)} {c.value}" for c in Consistency)


def confounders(frame: pd.DataFrame) -> str:
    """What was found, and which rules found nothing."""
    found = frame[frame["found"] != ""]
    quiet = ", ".join(frame.loc[frame["found"] == "", "rule"])
    note = Markup("<p>Looked for and not found: {}.</p>").format(quiet) if quiet else Markup("")
    if found.empty:
        return note
    return Markup("{}{}").format(table(found, caption="What else could explain the result"), note)


def audit(frame: pd.DataFrame) -> str:
    """What does not hold, and how much does; see :func:`reproduce.judgement.audit_frame`."""
    if frame.empty:
        return Markup("<p>No result file is on file.</p>")
    counts = ", ".join(f"{int(frame[o.value].sum()):,} {o.value}" for o in Outcome)
    text = Markup("<p>{} identities of an honest result: {}.</p>").format(len(frame), counts)
    told = frame[frame[[Outcome.VIOLATED.value, Outcome.NOTE.value]].sum(axis=1) > 0]
    if told.empty:
        return text
    columns = ["identity", Outcome.VIOLATED.value, Outcome.NOTE.value, "first finding"]
    return Markup("{}{}").format(
        text, table(told[columns], caption="Identities that do not hold everywhere")
    )
