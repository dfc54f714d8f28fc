"""The article's own evidence and the verdicts on its claims, as bound values."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from reproduce import tables
from reproduce.article.commands import SERVING
from reproduce.article.raw import PUBLISHED, REFERENCE, quoted, source, unlisted, whole
from reproduce.outside.rundir import RunDir
from reproduce.pages import figures
from reproduce.pages.ladder_values import POINTERS
from reproduce.pages.lineage import Bound, Source, worded
from reproduce.text.rounding import mean
from reproduce.verdicts.claim_checks import Article
from reproduce.verdicts.claims import Judged, Standing

_TABLE = f"{PUBLISHED}/raw/table.json"
_SETUP = f"{PUBLISHED}/raw/setup.json"
_CLAIMS = "reproduce/claims.yaml"


def setup() -> dict[str, Any]:
    """What the article says of itself."""
    return {
        "title": quoted(_SETUP, "/article/title"),
        "published": quoted(_SETUP, "/article/published"),
        "fuser": quoted(_SETUP, "/pull_requests/mla_fuser", grouped=False),
        "passes": quoted(_SETUP, "/pull_requests/fusion_passes", grouped=False),
        "model": quoted(_SETUP, "/model/id"),
        "parameters": quoted(_SETUP, "/model/parameters_billion", "10^9"),
        "active": quoted(_SETUP, "/model/active_parameters_billion", "10^9"),
        "gpus": quoted(_SETUP, "/hardware/gpus"),
        "gpu": quoted(_SETUP, "/hardware/gpu"),
        "nodes": quoted(_SETUP, "/hardware/nodes"),
        **{size: quoted(_SETUP, f"/topology/{size}") for size in ("tp", "pp", "ep")},
        "runs": quoted(_SETUP, "/runs_per_point/value"),
    }


def published(run: RunDir, frame: pd.DataFrame, article: Article) -> dict[str, Any]:
    """The article's table, and what its rounding leaves open."""
    rungs = list(article.rows)
    table = tables.ladder_table(frame, run.profile, "total_tok_s")
    over = article.profile.mean_tpot_over
    percents = mean(list(article.percents.values())).text(2)
    decode = mean([article.quotient(rung, "tpot_ms") for rung in over]).text(2)
    speeds = [s for rung in rungs for s in _published_sources(article, rung, "total_tok_s")]
    stated = [source(_TABLE, f"/rows/{row}/percent_of_native") for row in range(len(rungs))]
    return {
        "rows": [_published_row(article, row, rung) for row, rung in enumerate(rungs)],
        "count": worded("published.rows", str(len(rungs)), [source(_TABLE, "/rows")], "count"),
        "mean": quoted(_TABLE, "/means/percent_of_native", "%"),
        "low": quoted(_TABLE, "/means/percent_of_native_low", "%"),
        "high": quoted(_TABLE, "/means/percent_of_native_high", "%"),
        "tpot": quoted(_TABLE, "/means/tpot_percent_of_native", "%"),
        "ttft": quoted(_TABLE, "/means/ttft_percent_of_native", "%"),
        "mean_open": worded(
            "published.mean.open", percents, [*speeds, *stated],
            "mean of the ratios over every value that rounds to the printed one", "%",
        ),
        "tpot_open": worded(
            "published.tpot.open", decode,
            [s for rung in over for s in _published_sources(article, rung, "tpot_ms")],
            "mean of the ratios over every value that rounds to the printed one", "%",
        ),
        "alt": worded("published.figure", figures.ladder_alt(table, run.profile), speeds,
                      "figures.ladder_alt"),
    }  # fmt: skip


def _published_row(article: Article, row: int, rung: str) -> dict[str, Any]:
    planned = next(r for r in article.profile.ladder if r.name == rung)
    place = list(article.profile.ladder).index(planned)
    arms = {"base": article.profile.baseline, "tried": article.profile.candidate}
    return {
        "workload": worded(
            f"published.{rung}.workload", tables.workload(planned),
            [source(f"{PUBLISHED}/profile.yaml", f"/ladder/{place}")], "tables.workload",
        ),
        "percent": quoted(_TABLE, f"/rows/{row}/percent_of_native", "%"),
        "open": worded(
            f"published.{rung}.open", article.quotient(rung, "total_tok_s").text(2),
            _published_sources(article, rung, "total_tok_s"),
            "Transformers over native, over every value that rounds to the printed one", "%",
        ),
        **{f"{k}_speed": quoted(_TABLE, f"/rows/{row}/{arm}/total_tok_s", "tok/s")
           for k, arm in arms.items()},
        **{f"{k}_tpot": quoted(_TABLE, f"/rows/{row}/{arm}/tpot_ms", "ms")
           for k, arm in arms.items()},
    }  # fmt: skip


def _published_sources(article: Article, rung: str, metric: str) -> list[Source]:
    """Raw files where there are any, the printed table elsewhere."""
    row = list(article.rows).index(rung)
    return [
        source(f"{PUBLISHED}/raw/{arm}/launch-01/{rung}/rep-01.json", POINTERS[metric])
        if arm in article.results.get(rung, {})
        else source(_TABLE, f"/rows/{row}/{arm}/{metric}")
        for arm in (article.profile.baseline, article.profile.candidate)
    ]


def verdicts(judged: Sequence[Judged]) -> dict[str, Any]:
    """Every claim: what the kept run and the memory model say, and what the article's own data."""
    rows = [_claim(place, one) for place, one in enumerate(judged)]
    standings = [one.answer.standing for one in judged]
    return {
        "total": worded("claims", str(len(rows)), [source(_CLAIMS, "")], "count"),
        "counts": [
            (s.value, worded(f"claims.{s.name}", str(standings.count(s)), _deciding(), "count"))
            for s in Standing
        ],
        "decided": [r for r in rows if r["verdict"] != Standing.NOT_TESTABLE.value],
        "others": [r for r in rows if r["verdict"] == Standing.NOT_TESTABLE.value],
        "by_id": {one.claim.id: row for one, row in zip(judged, rows, strict=True)},
    }


def _claim(place: int, one: Judged) -> dict[str, Any]:
    name, answer = f"claim.{one.claim.id}", one.answer
    rule = source(_CLAIMS, f"/{place}")
    published = [rule, *whole(PUBLISHED)]
    decided = {
        "memory model": [rule, *_model()],
        "published data": published,
    }.get(one.claim.scope, [rule, *whole(REFERENCE)])
    return {
        "verdict": answer.standing.value,
        "decided_by": one.claim.scope,
        "consistency": one.consistency.value,
        "statement": worded(f"{name}.statement", one.claim.statement, [rule], "as stored"),
        "found": worded(f"{name}.found", answer.found, decided, "claims.judge"),
        "note": worded(f"{name}.note", answer.note, decided, "claims.judge"),
        "own": worded(f"{name}.own", one.own_data, published, "claims.judge"),
    }


def _deciding() -> list[Source]:
    return [source(_CLAIMS, ""), *whole(REFERENCE), *whole(PUBLISHED), *_model()]


def _model() -> list[Source]:
    return [
        source("data/models/deepseek-r1.json", "/config"),
        source("data/gpus.yaml", ""),
        source(f"{PUBLISHED}/memory_figures.json", "/figures"),
    ]


def files() -> list[tuple[Bound, Bound]]:
    """Digests of the files that decide every number: a manifest stands for what it lists."""
    profiles = [f"reproduce/profiles/{name}.yaml" for name in ("published", SERVING)]
    origins = [source(path, "") for path in (*unlisted(), _CLAIMS, *profiles)]
    return [
        (worded(f"path of {one.path}", one.path, [one], "path"),
         Bound(f"sha256 of {one.path}", one.sha256, one.sha256[:16], (one,), "sha256", "",
               "first 16 digits"))
        for one in origins
    ]  # fmt: skip
