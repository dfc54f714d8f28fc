"""How a run went, as HTML fragments: where its time went, and what failures left out."""

from collections.abc import Sequence

import pandas as pd
from markupsafe import Markup

from reproduce.pages.display import bound_frame, number, table
from reproduce.pages.lineage import Source
from reproduce.plan.ladder import Gap
from reproduce.plan.timing import Spent


def cost(found: Sequence[Spent], sources: Sequence[Source]) -> str:
    """Seconds and percent per launch, from ready to the last slice.

    Args:
        found: see :func:`timing.spent`.
        sources: what it was found in.
    """
    if not found:
        return Markup("<p>The records do not say when servers were ready and what was warm-up.</p>")
    rows = [(f"{one.launch}, {' and '.join(one.arms)}", one) for one in found]
    if len(found) > 1:
        sums = (sum(getattr(one, name) for one in found)
                for name in ("total_s", "traffic_s", "warmup_s"))  # fmt: skip
        rows.append(("all", Spent(0, (), *sums)))
    shown = pd.DataFrame(
        {
            "launch": label,
            "ready to last slice": number(one.total_s, 0, " s"),
            "measured": _share(one.traffic_s, one),
            "warm-up": _share(one.warmup_s, one),
            "harness": _share(one.harness_s, one),
        }
        for label, one in rows
    )
    bound = bound_frame(shown, "cost", lambda _: sources, "timing.spent", 0, {})
    return table(bound, caption="Where the time went: the harness is probes, waits and clients")


def _share(seconds: float, of: Spent) -> str:
    percent = 100 * seconds / of.total_s if of.total_s else None
    return f"{number(seconds, 0, ' s')}, {number(percent, 0, ' %')}"


def gaps(found: Sequence[Gap], sources: Sequence[Source]) -> str:
    """What launches lack because a server failed, in the engine's own words.

    Args:
        found: the gaps.
        sources: what they were found in.
    """
    if not found:
        return Markup("<p>No launch is missing because of a server that failed.</p>")
    shown = pd.DataFrame(
        {
            "launch": str(gap.launch),
            "missing": f"{' and '.join(gap.arms)}: {', '.join(gap.rungs)}",
            "starts": gap.failure.start,
            "failed": gap.failure.arm,
            "why": gap.failure.problem,
        }
        for gap in found
    )
    bound = bound_frame(shown, "gaps", lambda _: sources, "ladder.gaps", 0, {})
    return table(bound, caption="Launches with a gap")
