"""What a run says of the article's claims: its ladder, its logs and its commands."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from reproduce import metrics, tables
from reproduce.evidence.engine_log import missing_fusions
from reproduce.handed_over import REMOTE_CODE
from reproduce.profile import Profile, Rung
from reproduce.schemas import EngineFacts
from reproduce.stats.equivalence import LADDER, Comparison, Decision, Effect
from reproduce.verdicts.claims import Answer, Claim, Standing
from reproduce.verdicts.conditions import UNDER_TEST, Conditions, differing

_BACKENDS = ["native", "transformers"]
"""What the claims compare: the baseline's, then the candidate's."""
_REPLAYED = Answer(
    Standing.NOT_TESTABLE,
    "one run per point has no uncertainty, and a replay measures nothing",
)


@dataclass(frozen=True)
class RunTests:
    """Rules on a run; each takes the claim and its values from claims.yaml.

    Attributes:
        conditions: the run.
        article: the profile that the article measured.
        attention: the attention backend that the article's log shows.
        objections: why the run's engines are not those of the claim; empty when they are.
        withheld: confounders that withhold the verdict on speed.
    """

    conditions: Conditions
    article: Profile
    attention: str | None
    objections: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()

    def rules(self) -> dict[str, Callable[..., Answer]]:
        """Every rule by name."""
        return {
            "ratio": self.ratio,
            "every_rung": self.every_rung,
            "ladder": self.ladder,
            "most_concurrent": self.most_concurrent,
            "elsewhere": self.elsewhere,
            "fused_modules": self.fused_modules,
            "same_fact": self.same_fact,
            "named_fact": self.named_fact,
            "flags": self.flags,
        }

    def _no_evidence(self) -> Answer | None:
        """Why the logs and commands of this run say nothing on the claim."""
        if self._profile.kind == "published":
            return _REPLAYED
        shown = [engine.backend if engine else None for engine in self._engines]
        if shown != _BACKENDS:
            return Answer(
                Standing.NOT_TESTABLE,
                f"the logs show other arms: {_say(shown[0])} and {_say(shown[1])}",
            )
        return None

    @property
    def _profile(self) -> Profile:
        return self.conditions.profile

    @cached_property
    def _engines(self) -> tuple[EngineFacts | None, EngineFacts | None]:
        base, tried = (self.conditions.logs(arm) for arm in self.conditions.arms)
        return (base[0].engine if base else None, tried[0].engine if tried else None)

    @cached_property
    def _setting(self) -> str:
        """How the run's setting departs from the article's; empty when it does not."""
        ours, theirs = self._profile, self.article
        if ours.model.id != theirs.model.id:
            return f"{_short(ours.model.id)}, not {_short(theirs.model.id)}"
        if ours.topology != theirs.topology:
            return "another topology"
        shown = self._engines[1].attention_backend if self._engines[1] else None
        return "" if shown == self.attention else f"attention backend {shown}, not {self.attention}"

    def _in_form(self) -> str:
        return f"In form only: {self._setting}." if self._setting else ""

    def _barred(self) -> Answer | None:
        """Why nothing on speed can be said of this run."""
        if self._profile.kind == "published":
            return _REPLAYED
        backends = [self._profile.arms[arm].backend for arm in self.conditions.arms]
        if backends != _BACKENDS:
            return Answer(
                Standing.NOT_TESTABLE, f"the arms of this run are {' and '.join(backends)}"
            )
        if self.objections:
            return Answer(
                Standing.NOT_TESTABLE,
                f"this run is not a test of the claim: {'; '.join(self.objections)}",
            )
        if self.withheld:
            return Answer(Standing.INCONCLUSIVE, f"withheld: {self.withheld[0]}")
        return None

    def ratio(
        self, claim: Claim, metric: str, value: str, rung: str | None = None, over: str = "all"
    ) -> Answer:
        """The article's own percentage, on a run of its model, topology and workload."""
        if (barred := self._barred()) is not None:
            return barred
        if self._setting:
            return Answer(
                Standing.NOT_TESTABLE,
                f"needs the article's machines; here {self._setting}",
            )
        effect = self._effect(metric, over, claim.margin)
        if rung is not None:
            wanted = next(r for r in self.article.ladder if r.name == rung)
            effect = self._effect_of(metric, wanted, claim.margin)
        if effect is None or effect.low is None or effect.high is None:
            return Answer(Standing.INCONCLUSIVE, _percent(effect), "No interval.")
        stated, margin = float(value) / 100, claim.margin or 0
        note = f"Against {value} % with {100 * margin:g} points on each side."
        return Answer(
            _against(effect.low, effect.high, stated - margin, stated + margin),
            _percent(effect),
            note,
        )

    def every_rung(self, claim: Claim, metric: str) -> Answer:
        """Equivalence on every rung: all of them, or it does not hold."""
        if (barred := self._barred()) is not None:
            return barred
        found = self._comparison(metric, claim.margin)
        effects = found.rungs if found else ()
        if len(effects) < len(self._profile.ladder):
            return Answer(Standing.INCONCLUSIVE, "some workloads lack a valid pair")
        counts = {d: sum(e.decision is d for e in effects) for d in Decision}
        standing = Standing.INCONCLUSIVE
        if counts[Decision.DIFFERENT]:
            standing = Standing.CONTRADICTED
        elif counts[Decision.EQUIVALENT] == len(effects):
            standing = Standing.REPRODUCED
        told = ", ".join(f"{n} {d.value}" for d, n in counts.items() if n)
        return Answer(standing, f"of {len(effects)} workloads: {told}", self._in_form())

    def ladder(self, claim: Claim, metric: str, over: str = "all") -> Answer:
        """The ladder's mean against the margin, on both sides or on the worse one."""
        if (barred := self._barred()) is not None:
            return barred
        return self._within(claim, metric, self._effect(metric, over, claim.margin))

    def most_concurrent(self, claim: Claim, metric: str) -> Answer:
        """The rung with the most requests in flight, against the margin."""
        if (barred := self._barred()) is not None:
            return barred
        rung = max(self._profile.ladder, key=lambda r: r.in_flight)
        return self._within(claim, metric, self._effect_of(metric, rung, claim.margin))

    def elsewhere(self, _: Claim, why: str) -> Answer:
        """A statement that no run of this package decides, with the reason."""
        return Answer(Standing.NOT_TESTABLE, why)

    def fused_modules(self, _: Claim) -> Answer:
        """Every expected module, in the candidate's log."""
        base, tried = self._engines
        if (silent := self._no_evidence()) is not None:
            return silent
        if tried is None or base is None or base.architecture is None:
            return Answer(Standing.INCONCLUSIVE, "no engine log of both arms")
        missing = missing_fusions(tried, base.architecture)
        if missing:
            names = "; ".join(f.source for f in missing)
            return Answer(Standing.CONTRADICTED, f"missing: {names}", self._in_form())
        if not tried.fusions:
            return Answer(
                Standing.NOT_TESTABLE, "no list of modules", f"None known of {base.architecture}."
            )
        return Answer(Standing.REPRODUCED, "all in the log", self._in_form())

    def same_fact(self, _: Claim, fact: str) -> Answer:
        """A fact that both logs must show alike."""
        if (silent := self._no_evidence()) is not None:
            return silent
        values = [getattr(engine, fact, None) if engine else None for engine in self._engines]
        said = [_say(value) for value in values]
        if any(value is None or value == () for value in values):
            return Answer(Standing.INCONCLUSIVE, f"native {said[0]}, transformers {said[1]}")
        if _unordered(values[0]) != _unordered(values[1]):
            return Answer(
                Standing.CONTRADICTED, f"native {said[0]}, transformers {said[1]}", self._in_form()
            )
        return Answer(Standing.REPRODUCED, f"both {said[0]}", self._in_form())

    def named_fact(self, _: Claim, fact: str, value: str) -> Answer:
        """A fact that both logs must show by name, on the article's hardware."""
        if (silent := self._no_evidence()) is not None:
            return silent
        said = [_say(getattr(engine, fact, None) if engine else None) for engine in self._engines]
        found = f"native {said[0]}, transformers {said[1]}"
        if self._setting:
            return Answer(
                Standing.NOT_TESTABLE,
                found,
                f"Needs the article's setting: {self._setting}.",
            )
        wanted = ", ".join(sorted(value.split(", ")))
        return Answer(_decide(all(text == wanted for text in said)), found)

    def flags(self, _: Claim) -> Answer:
        """The commands of both arms' servers."""
        if (silent := self._no_evidence()) is not None:
            return silent
        arms = {command.arm for command in self.conditions.commands}
        if not set(self.conditions.arms) <= arms:
            return Answer(Standing.INCONCLUSIVE, "no command of both arms on file")
        names = sorted(differing(self.conditions))
        same = set(names) <= {UNDER_TEST, REMOTE_CODE}
        return Answer(_decide(same), f"differ in {', '.join(names) or 'nothing'}", self._in_form())

    def _comparison(
        self, metric: str, margin: float | None, over: str = "all"
    ) -> Comparison | None:
        profile, frame = self._profile, self.conditions.measurements
        if margin:
            profile = profile.model_copy(update={"margin": margin})
        if over == "latency rungs" and profile.mean_tpot_over:
            frame = frame[frame["rung"].isin(profile.mean_tpot_over)]
        return tables.comparison(frame, profile, metric)

    def _effect(self, metric: str, over: str, margin: float | None) -> Effect | None:
        found = self._comparison(metric, margin, over)
        complete = found is not None and len(found.rungs) == self._wanted(over)
        return found.ladder if found is not None and complete else None

    def _wanted(self, over: str) -> int:
        named = self._profile.mean_tpot_over if over == "latency rungs" else ()
        return len(named or self._profile.ladder)

    def _effect_of(self, metric: str, wanted: Rung, margin: float | None) -> Effect | None:
        load = (wanted.concurrency, wanted.input_tokens, wanted.output_tokens)
        names = [
            rung.name
            for rung in self._profile.ladder
            if (rung.concurrency, rung.input_tokens, rung.output_tokens) == load
        ]
        found = self._comparison(metric, margin)
        return next((e for e in found.rungs if e.name in names), None) if found else None

    def _within(self, claim: Claim, metric: str, effect: Effect | None) -> Answer:
        if effect is None or effect.low is None or effect.high is None:
            note = effect.caveat if effect and effect.caveat else "Some workloads lack valid pairs."
            return Answer(Standing.INCONCLUSIVE, _percent(effect), note)
        if claim.direction != "not below":
            standing = {
                Decision.EQUIVALENT: Standing.REPRODUCED,
                Decision.DIFFERENT: Standing.CONTRADICTED,
                Decision.INCONCLUSIVE: Standing.INCONCLUSIVE,
            }[effect.decision]
            return Answer(standing, _percent(effect), self._in_form())
        better = metrics.METRICS[metric].higher_is_better
        margin = claim.margin or self._profile.margin
        worse = effect.high < 1 - margin if better else effect.low > 1 + margin
        standing = Standing.CONTRADICTED if worse else Standing.INCONCLUSIVE
        if effect.noninferior:
            standing = Standing.REPRODUCED
        return Answer(standing, _percent(effect), self._in_form())


def _against(low: float, high: float, least: float, most: float) -> Standing:
    if least <= low and high <= most:
        return Standing.REPRODUCED
    return Standing.CONTRADICTED if high < least or low > most else Standing.INCONCLUSIVE


def _decide(holds: bool) -> Standing:
    return Standing.REPRODUCED if holds else Standing.CONTRADICTED


def _percent(effect: Effect | None) -> str:
    if effect is None or effect.ratio is None:
        return "not measured"
    place = "mean" if effect.name == LADDER else effect.name
    text = f"{place}: {100 * effect.ratio:.1f} %"
    if effect.low is None or effect.high is None:
        return text
    return f"{text} ({100 * effect.low:.1f} to {100 * effect.high:.1f})"


def _short(model: str) -> str:
    return model.rpartition("/")[2]


def _unordered(value: object) -> object:
    return set(value) if isinstance(value, tuple) else value


def _say(value: object) -> str:
    if value is None or value == ():
        return "none logged"
    if isinstance(value, tuple):
        return ", ".join(sorted(value))
    return f"{value:,}" if isinstance(value, int) else str(value)
