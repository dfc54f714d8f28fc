"""A run directory → its audit, its confounders, its verdict and the article's claims."""

import pandas as pd

from reproduce import analysis, confounders, ladder, tables, verdict
from reproduce.audit import Finding, Outcome, audit
from reproduce.confounders import Command, Conditions, Confounder
from reproduce.errors import DataError
from reproduce.rundir import RunDir, read_json


def audited(run: RunDir) -> list[tuple[str, Finding]]:
    """Findings on every counted result file, with its path below the run's root."""
    frame = analysis.measurements(run)
    sources = frame.loc[frame["valid"], ["rung", "source"]].drop_duplicates()
    found = []
    for rung_name, source in sources.itertuples(index=False):
        if not source.startswith("raw/") or source == "raw/table.json":
            continue
        rung = ladder.rung_named(run.profile, rung_name)
        findings = audit(
            read_json(run.root / source), input_len=rung.input_tokens, output_len=rung.output_tokens
        )
        found += [(source, finding) for finding in findings]
    return found


def conditions(run: RunDir) -> Conditions:
    """What the rules on confounders look at."""
    return Conditions(
        profile=run.profile,
        measurements=analysis.measurements(run),
        records=run.records(),
        launches=analysis.engine_facts(run),
        commands=_commands(run),
        changed_files=run.changed_files(),
        violations=[
            f"{source}: {finding.identity}: {finding.sentence}"
            for source, finding in audited(run)
            if finding.outcome is Outcome.VIOLATED
        ],
    )


def _commands(run: RunDir) -> list[Command]:
    found = []
    for path in sorted((run.root / "raw").glob("*/launch-*/start-*/command.json")):
        data = read_json(path)
        try:
            argv, env = [str(word) for word in data["argv"]], dict(data.get("env", {}))
        except (TypeError, KeyError, AttributeError, ValueError) as error:
            raise DataError(f"{path}: argv: must be a list of words: restore the file") from error
        found.append(Command(path.parents[2].name, argv, env))
    return found


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
    table["first finding"] = table["identity"].map(worst).fillna("")
    return table[columns]


def confounders_frame(run: RunDir) -> pd.DataFrame:
    """One row per confounder found, and one per rule that found none."""
    found: list[Confounder] = confounders.find(conditions(run))
    names = {one.name for one in found}
    rows = [(one.name, one.severity.value, one.sentence) for one in found]
    rows += [(name, "not found", "") for name in confounders.RULES if name not in names]
    return pd.DataFrame(rows, columns=["rule", "severity", "found"])
