"""The article's own data against its statements: every printed digit, in exact arithmetic."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from reproduce.evidence.engine_log import head
from reproduce.evidence.fusions import EXPECTED_FUSIONS
from reproduce.profile import Profile
from reproduce.schemas import EngineFacts
from reproduce.text.rounding import Relation, Span, exact, mean, printed, relation
from reproduce.verdicts.claims import Check, Claim

_KEYS = {"total_tok_s": "total_token_throughput", "tpot_ms": "mean_tpot_ms"}
_TTFT = "mean_ttft_ms"
_HUNDRED = exact(100)


@dataclass(frozen=True)
class Article:
    """What the article published.

    Attributes:
        profile: its settings and ladder.
        rows: printed table by rung, each value as text.
        means: printed means and range, as text.
        results: raw results by rung and arm.
        engine: what its log excerpt of the Transformers arm shows.
        stated_native: what it says of the native engine, without a log.
        figures: printed memory figures by name, as text.
    """

    profile: Profile
    rows: Mapping[str, Mapping[str, Any]]
    means: Mapping[str, str]
    results: Mapping[str, Mapping[str, Mapping[str, Any]]]
    engine: EngineFacts
    stated_native: Mapping[str, Any]
    figures: Mapping[str, str]

    def value(self, rung: str, arm: str, metric: str) -> Span:
        """A metric of a rung: exact where the raw file is published, else as printed."""
        result = self.results.get(rung, {}).get(arm)
        if result is not None:
            return exact(result[_KEYS[metric]])
        return printed(self.rows[rung][arm][metric])

    def quotient(self, rung: str, metric: str) -> Span:
        """Transformers in percent of native, from the two values."""
        base = self.value(rung, self.profile.baseline, metric)
        return self.value(rung, self.profile.candidate, metric) / base * 100

    def percent(self, rung: str) -> Span:
        """Percent of native, narrowed by the printed percentage."""
        return self.quotient(rung, "total_tok_s").narrowed(
            printed(self.rows[rung]["percent_of_native"])
        )

    @cached_property
    def percents(self) -> dict[str, Span]:
        """Percent of native of every rung."""
        return {rung: self.percent(rung) for rung in self.rows}


@dataclass(frozen=True)
class Checks:
    """Rules on the article's data; each takes the claim and its values from claims.yaml."""

    article: Article

    def rules(self) -> dict[str, Callable[..., Check]]:
        """Every rule by name."""
        return {
            "percent": self.percent,
            "mean_percent": self.mean_percent,
            "range": self.range,
            "inside": self.inside,
            "not_below": self.not_below,
            "latency": self.latency,
            "mean_latency": self.mean_latency,
            "mean_ttft": self.mean_ttft,
            "throughput_sum": self.throughput_sum,
            "row_equals_json": self.row_equals_json,
            "little": self.little,
            "largest_deviation": self.largest_deviation,
            "fusions": self.fusions,
            "attention": self.attention,
            "custom_fusions": self.custom_fusions,
            "flags": self.flags,
            "total_memory": self.total_memory,
            "stages": self.stages,
        }

    def percent(self, _: Claim, rung: str) -> Check:
        """The printed percentage against the two printed throughputs."""
        found = self.article.quotient(rung, "total_tok_s")
        stated = printed(self.article.rows[rung]["percent_of_native"])
        return Check(relation(found, stated), f"{found.text(2)} % from the two throughputs")

    def mean_percent(self, _: Claim) -> Check:
        """The printed mean against the rungs."""
        found = mean(list(self.article.percents.values()))
        stated = printed(self.article.means["percent_of_native"])
        return Check(relation(found, stated), f"{found.text(2)} % from the {self._count()} rows")

    def range(self, _: Claim) -> Check:
        """The printed ends against the smallest and largest printed percentage."""
        stated = [Fraction(row["percent_of_native"]) for row in self.article.rows.values()]
        ends = [Fraction(self.article.means[f"percent_of_native_{e}"]) for e in ("low", "high")]
        same = [min(stated), max(stated)] == ends
        return Check(
            Relation.SAME if same else Relation.APART,
            f"{float(min(stated)):.1f} to {float(max(stated)):.1f} % in the rows",
        )

    def inside(self, claim: Claim) -> Check:
        """Every observed percentage against the claim's margin."""
        band = Span(*(100 + 100 * sign * _share(claim) for sign in (-1, 1)))
        low = min(span.low for span in self.article.percents.values())
        high = max(span.high for span in self.article.percents.values())
        found = Span(low, high)
        apart = any(not span.meets(band) for span in self.article.percents.values())
        kind = Relation.APART if apart else relation(found, band)
        return Check(kind, f"{found.text(2)} % over the {self._count()} rows, one run each")

    def not_below(self, claim: Claim, rung: str | None = None) -> Check:
        """An observed percentage, or the mean of all, against the claim's lower bound."""
        spans = self.article.percents
        found = mean(list(spans.values())) if rung is None else spans[rung]
        bound = 100 * (1 - _share(claim))
        kind = Relation.APART if found.high < bound else Relation.OPEN
        if found.low >= bound:
            kind = Relation.SAME
        return Check(kind, f"{found.text(2)} %, one run per row")

    def latency(self, _: Claim, rung: str) -> Check:
        """Printed TPOT of both arms against the raw files where there are any."""
        checks = []
        for arm in self._arms():
            stated = printed(self.article.rows[rung][arm]["tpot_ms"])
            checks.append((relation(self.article.value(rung, arm, "tpot_ms"), stated), arm))
        ratio = self.article.quotient(rung, "tpot_ms")
        return Check(_worst(kind for kind, _ in checks), f"{ratio.text(2)} % of native")

    def mean_latency(self, _: Claim) -> Check:
        """The printed mean TPOT over the rungs it is taken over."""
        rungs = self.article.profile.mean_tpot_over
        found = mean([self.article.quotient(rung, "tpot_ms") for rung in rungs])
        stated = printed(self.article.means["tpot_percent_of_native"])
        return Check(relation(found, stated), f"{found.text(2)} % from {len(rungs)} rows")

    def mean_ttft(self, _: Claim) -> Check:
        """TTFT, which the table does not print: only the raw files have it."""
        rungs = self.article.profile.mean_tpot_over
        ratios = {
            rung: exact(files[tried][_TTFT]) / exact(files[base][_TTFT]) * 100
            for rung, files in self.article.results.items()
            for base, tried in [self._arms()]
            if rung in rungs
        }
        told = ", ".join(f"{rung} {span.text(2)} %" for rung, span in ratios.items())
        found = f"TTFT of {len(ratios)} of {len(rungs)} rows is on file: {told}"
        if len(ratios) < len(rungs):
            return Check(None, found)
        stated = printed(self.article.means["ttft_percent_of_native"])
        return Check(relation(mean(list(ratios.values())), stated), found)

    def throughput_sum(self, _: Claim, rung: str) -> Check:
        """Input and output tokens over the duration, against the reported total."""
        worst = 0.0
        for result in self.article.results[rung].values():
            tokens = result["total_input_tokens"] + result["total_output_tokens"]
            total = result["total_token_throughput"]
            worst = max(worst, abs(tokens / result["duration"] / total - 1))
        kind = Relation.SAME if worst < 1e-9 else Relation.APART
        return Check(kind, f"largest relative difference {worst:.1e}")

    def row_equals_json(self, _: Claim, rung: str) -> Check:
        """The printed row against the raw files, digit by digit."""
        kinds = [
            relation(self.article.value(rung, arm, key), printed(self.article.rows[rung][arm][key]))
            for arm in self._arms()
            for key in _KEYS
        ]
        return Check(_worst(kinds), f"{len(kinds)} values of the row against the two files")

    def little(self, _: Claim) -> Check:
        """Little's law: total throughput ≤ concurrency × tokens / time spent on decoding."""
        kinds, shares = [], []
        for rung in self.article.profile.ladder:
            if rung.concurrency is None:
                continue
            for arm in self._arms():
                tokens = rung.concurrency * (rung.input_tokens + rung.output_tokens)
                tpot = self.article.value(rung.name, arm, "tpot_ms")
                seconds = tpot * Fraction(rung.output_tokens - 1, 1000)
                share = self.article.value(rung.name, arm, "total_tok_s") / (
                    exact(tokens) / seconds
                )
                kinds.append(Relation.APART if share.low > 1 else Relation.SAME)
                shares.append(float(share.high))
        return Check(
            _worst(kinds),
            f"{100 * min(shares):.0f} to {100 * max(shares):.0f} % of the ceiling in "
            f"{len(shares)} values",
        )

    def largest_deviation(self, _: Claim, rung: str) -> Check:
        """The rung whose percentage is farthest from 100."""
        away = {
            name: max(100 - span.low, span.high - 100)
            for name, span in self.article.percents.items()
        }
        own = self.article.percents[rung] - _HUNDRED
        others = max(value for name, value in away.items() if name != rung)
        kind = Relation.SAME if own.low > others else Relation.OPEN
        if own.high < others:
            kind = Relation.APART
        return Check(kind, f"{own.text(2)} points there, at most {float(others):.2f} elsewhere")

    def fusions(self, _: Claim) -> Check:
        """The log excerpt against the modules named."""
        expected = EXPECTED_FUSIONS["DeepseekV3ForCausalLM"]
        shown = {(f.source, head(f.target)) for f in self.article.engine.fusions}
        count = sum((f.source, f.target) in shown for f in expected)
        kind = Relation.SAME if count == len(expected) else Relation.APART
        return Check(kind, f"{count} of {len(expected)} modules in the log excerpt")

    def attention(self, _: Claim) -> Check:
        """The excerpt of one arm against what is stated of the other."""
        return _equal(self.article.engine.attention_backend, self._native("attention_backend"))

    def custom_fusions(self, _: Claim) -> Check:
        """The excerpt of one arm against what is stated of the other."""
        excerpt = sorted(self.article.engine.custom_fusions)
        return _equal(", ".join(excerpt), ", ".join(sorted(self._native("custom_fusions"))))

    def flags(self, _: Claim) -> Check:
        """The two printed commands, as far as the article prints them."""
        base, tried = (self.article.profile.arms[arm].serve for arm in self._arms())
        names = sorted(n for n in {*base, *tried} if base.get(n) != tried.get(n))
        same = set(names) <= {"model-impl", "trust-remote-code"}
        return Check(Relation.SAME if same else Relation.APART, f"differ in {', '.join(names)}")

    def total_memory(self, _: Claim, parts: Sequence[str], total: str) -> Check:
        """Printed parts against what they are parts of, in GiB."""
        spans = [printed(self.article.figures[part]) for part in parts]
        found = sum(spans[1:], start=spans[0])
        return Check(relation(found, printed(total)), f"the parts add up to {found.text(2)} GiB")

    def stages(self, _: Claim, gpus: int) -> Check:
        """The product of the parallel sizes against the GPUs."""
        topology = self.article.profile.topology
        product = topology.tp * topology.pp * topology.dp
        kind = Relation.SAME if product == gpus else Relation.APART
        return Check(kind, f"TP {topology.tp} times PP {topology.pp} is {product}")

    def _arms(self) -> tuple[str, str]:
        return self.article.profile.baseline, self.article.profile.candidate

    def _count(self) -> int:
        return len(self.article.rows)

    def _native(self, key: str) -> Any:
        return self.article.stated_native[key]


def _share(claim: Claim) -> Fraction:
    return Fraction(str(claim.margin or 0))


def _worst(kinds: Iterable[Relation]) -> Relation:
    return max(kinds, key=list(Relation).index)


def _equal(excerpt: str | None, stated: str) -> Check:
    kind = Relation.SAME if excerpt == stated else Relation.APART
    return Check(kind, f"log excerpt {excerpt}, stated of native {stated}")
