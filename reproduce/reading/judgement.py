"""A run directory → its audit, its confounders, its verdict and the article's claims."""

from pathlib import Path

import pandas as pd
import yaml
from pydantic import TypeAdapter, ValidationError

from reproduce import tables
from reproduce.errors import DataError
from reproduce.memory.architecture import parse_architecture
from reproduce.outside import catalog
from reproduce.outside.memo import once, remembered
from reproduce.outside.rundir import RunDir
from reproduce.outside.stored import read_json
from reproduce.reading import analysis
from reproduce.schemas import EngineFacts
from reproduce.verdicts import claims, confounders, verdict
from reproduce.verdicts.audit import Finding, Outcome, audit
from reproduce.verdicts.claim_checks import Article, Checks
from reproduce.verdicts.claim_memory import MemoryTests
from reproduce.verdicts.claim_tests import RunTests
from reproduce.verdicts.claims import Claim, Judged
from reproduce.verdicts.conditions import Command, Conditions
from reproduce.verdicts.confounders import Confounder

CLAIMS = Path(__file__).parents[1] / "claims.yaml"
_MODEL = "deepseek-r1"
_GPUS = ("h100-80gb", "h200-141gb")


@once
def audited(run: RunDir) -> list[tuple[str, Finding]]:
    """Findings on every counted result file, with its path below the run's root."""
    frame = analysis.measurements(run)
    sources = frame.loc[frame["valid"], ["rung", "source"]].drop_duplicates()
    found = []
    for rung_name, source in sources.itertuples(index=False):
        if not source.startswith("raw/") or source == "raw/table.json":
            continue
        rung = run.profile.rung(rung_name)
        findings = _findings(run.root / source, rung.input_tokens, rung.output_tokens)
        found += [(source, finding) for finding in findings]
    return found


@remembered
def _findings(path: Path, input_len: int, output_len: int) -> tuple[Finding, ...]:
    return tuple(audit(read_json(path), input_len=input_len, output_len=output_len))


@once
def conditions(run: RunDir) -> Conditions:
    """What the rules on confounders look at."""
    frame = analysis.measurements(run)
    return Conditions(
        profile=run.profile,
        measurements=frame,
        records=run.records(),
        launches=analysis.engine_facts(run),
        commands=_commands(run),
        disturbed={
            str(arm): (int(marks.sum()), len(marks))
            for arm, marks in frame.groupby("arm")["disturbed"]
        },
        changed_files=run.changed_files(),
        gaps=analysis.gaps(run),
        violations=[
            f"{source}: {finding.identity}: {finding.sentence}"
            for source, finding in audited(run)
            if finding.outcome is Outcome.VIOLATED
        ],
    )


def _commands(run: RunDir) -> list[Command]:
    return [Command(arm, made.argv, made.env) for (arm, _, _), made in run.commands().items()]


def verdict_of(run: RunDir) -> verdict.Verdict:
    """The verdict on speed, withheld where something else may explain the result."""
    facts = conditions(run)
    return verdict.judge(
        run.profile,
        tables.comparison(facts.measurements, run.profile, "total_tok_s"),
        analysis.scope(run),
        facts.measurements,
        analysis.facts_of(run, run.profile.candidate),
        confounders.find(facts),
    )


def audit_frame(run: RunDir) -> pd.DataFrame:
    """One row per identity: how often it holds, is noted, is violated or cannot be checked."""
    rows = [
        {
            "identity": finding.identity,
            "meaning": finding.meaning,
            "outcome": finding.outcome.value,
            "finding": f"{source}: {finding.sentence}",
        }
        for source, finding in audited(run)
    ]
    outcomes = [outcome.value for outcome in Outcome]
    columns = ["identity", "meaning", *outcomes, "first finding"]
    if not rows:
        return pd.DataFrame(columns=columns)
    frame = pd.DataFrame(rows)
    counts = (
        frame.groupby(["identity", "meaning"], sort=False)["outcome"]
        .value_counts()
        .unstack(fill_value=0)
        .reindex(columns=outcomes, fill_value=0)
    )
    told = frame[frame["outcome"].isin([Outcome.VIOLATED, Outcome.NOTE])]
    worst = told.sort_values("outcome", ascending=False).groupby("identity")["finding"].first()
    table = counts.reset_index()
    table["first finding"] = [worst.get(name, "") for name in table["identity"]]
    return table[columns]


def confounders_frame(run: RunDir) -> pd.DataFrame:
    """One row per confounder found, and one per rule that found none."""
    found: list[Confounder] = confounders.find(conditions(run))
    names = {one.name for one in found}
    rows = [(one.name, one.severity.value, one.sentence) for one in found]
    rows += [(name, "not found", "") for name in confounders.RULES if name not in names]
    return pd.DataFrame(rows, columns=["rule", "severity", "found"])


def load_claims(path: Path = CLAIMS) -> list[Claim]:
    """The article's claims.

    Raises:
        DataError: the file is damaged, or two claims have one id.
    """
    try:
        found = TypeAdapter(list[Claim]).validate_python(yaml.safe_load(path.read_text("utf-8")))
    except (OSError, yaml.YAMLError) as error:
        raise DataError(f"{path}: cannot be read ({str(error).splitlines()[0]})") from error
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise DataError(f"{path}: {key}: {first['msg']}") from error
    ids = [claim.id for claim in found]
    if repeated := [name for name in ids if ids.count(name) > 1]:
        raise DataError(f"{path}: two claims are called '{repeated[0]}'")
    return found


def load_article(root: Path = catalog.DATA_DIRECTORY / "published") -> Article:
    """The article's own data."""
    run = RunDir.open(root)
    table = analysis.printed_table(run)
    if table is None:
        raise DataError(f"{root}/raw/table.json: missing: restore it from the repository")
    results: dict[str, dict[str, dict[str, object]]] = {}
    for path in sorted((root / "raw").glob("*/launch-01/*/rep-01.json")):
        results.setdefault(path.parent.name, {})[path.parents[2].name] = read_json(path)
    return Article(
        profile=run.profile,
        rows={row["rung"]: row for row in table["rows"]},
        means=table["means"],
        results=results,
        engine=analysis.facts_of(run, run.profile.candidate) or EngineFacts(),
        stated_native=read_json(root / "raw" / "setup.json")["native_engine"],
        figures=_figures(),
    )


def _figures() -> dict[str, str]:
    return {figure.id: str(figure.value) for figure in catalog.load_published_figures()}


@once
def judged_claims(run: RunDir) -> list[Judged]:
    """Every claim of the article, judged on this run."""
    article, facts = load_article(), conditions(run)
    config = catalog.load_config(_MODEL)
    on_run = RunTests(
        conditions=facts,
        article=article.profile,
        attention=article.engine.attention_backend,
        objections=analysis.scope(run).objections,
        withheld=confounders.blocking(confounders.find(facts)),
    )
    on_memory = MemoryTests(
        architecture=parse_architecture(config, _MODEL),
        experts_per_token=config["num_experts_per_tok"],
        gpus={gpu: catalog.load_gpu(gpu) for gpu in _GPUS},
        utilization=float(article.profile.server.flags["gpu-memory-utilization"]),
        figures=article.figures,
    )
    rules = {**on_run.rules(), **on_memory.rules()}
    return claims.judge(load_claims(), rules, Checks(article).rules())


def claims_frame(run: RunDir) -> pd.DataFrame:
    """One row per claim: what the article says, the verdict, and whether its own data agree."""
    return pd.DataFrame(
        {
            "claim": one.claim.id,
            "section": one.claim.section,
            "statement": one.claim.statement,
            "decided by": one.claim.scope,
            "verdict": one.answer.standing.value,
            "found": one.answer.found,
            "note": one.answer.note,
            "article's own data": one.consistency.value,
            "found in them": one.own_data,
        }
        for one in judged_claims(run)
    )
