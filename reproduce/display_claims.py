"""Claims, confounders and audits → HTML fragments. Everything that comes from a file is escaped."""

import pandas as pd
from markupsafe import Markup

from reproduce.audit import Outcome
from reproduce.claims import Consistency, Standing
from reproduce.display import table


def claims(frame: pd.DataFrame) -> str:
    """The count of each verdict, then every claim; see :func:`reproduce.judgement.claims_frame`."""
    shown = pd.DataFrame(
        {
            "the article says": frame["statement"],
            "verdict": [
                Markup('<strong class="{}">{}</strong>').format(verdict.replace(" ", "-"), verdict)
                for verdict in frame["verdict"]
            ],
            "found": [
                Markup("{}<br><small>{}</small>").format(found, note) if note else found
                for found, note in zip(frame["found"], frame["note"], strict=True)
            ],
            "the article's own data": [
                Markup("{}<br><small>{}</small>").format(word, found) if found else word
                for word, found in zip(
                    frame["article's own data"], frame["found in them"], strict=True
                )
            ],
            "decided by": frame["decided by"],
        }
    )
    return Markup("<p>{}</p>{}").format(
        summary(frame),
        table(shown, caption="Every checkable statement of the article, in our words"),
    )


def summary(frame: pd.DataFrame) -> str:
    """How many claims have each verdict, and how many the article's own data bear out."""
    counts = frame["verdict"].value_counts()
    verdicts = ", ".join(f"{counts.get(s.value, 0)} {s.value}" for s in Standing)
    own = frame["article's own data"].value_counts()
    data = ", ".join(f"{own.get(c.value, 0)} {c.value}" for c in Consistency)
    return f"{len(frame)} claims: {verdicts}. The article's own data: {data}."


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
