"""Do two engines give the same answers? Speed of wrong answers is no speed.

Both get the same prompts and decode greedily. As long as their tokens are equal their contexts
are, so log-probabilities can be compared position by position, up to and including the first
position where the tokens differ. Rounding changes log-probabilities a little everywhere, and
flips a token where two candidates are nearly tied. In a mixture of experts it also flips, at few
positions, the choice of an expert, which changes that one position a lot. A wrong kernel changes
most positions a lot. So it is the many that tell, not the largest.

Measured on the tiny checkpoint, 512 positions, nine in ten differ by less than: native against
Transformers 0.03, either against float32 0.02 (with one token flipped where two experts were
tied); one pair of experts swapped in one layer of three 0.26, in all layers 0.64; experts of the
wrong half 1.2 to 1.5. Tokens alone show little: even then 98 % of them stay the same.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from reproduce.schemas import Answer, Answers, Candidate

PROMPTS = 8
PROMPT_TOKENS = 64
ANSWER_TOKENS = 64
_FIRST_TOKEN, _LAST_TOKEN = 300, 4000
"""Ordinary tokens, neither special nor single bytes, in the tiny checkpoint's vocabulary and in
DeepSeek's."""

USUAL = 0.9
"""Share of positions that the limit is about."""
USUAL_LIMIT = 0.1
"""Largest log-probability difference, in nats, that nine in ten positions may have."""
ISOLATED_SHARE = 0.5
"""Share of prompts that may part away from a tie; beyond it, it is no exception any more."""


class Decision(StrEnum):
    """What the answers say about two engines."""

    AGREE = "agree"
    NEAR_TIES = "agree but for near ties"
    ISOLATED = "agree but for isolated tokens"
    DISAGREE = "disagree"
    NOT_CHECKED = "not checked"


@dataclass(frozen=True)
class Divergence:
    """Where two answers to one prompt part.

    Attributes:
        prompt: 0-based prompt.
        position: 0-based position in the answer.
        first: token that the first engine chose.
        second: token that the second engine chose.
        gap: by how much, in natural log, the engines together prefer their own token: the first
            engine's margin of its token over the other, plus the second's. A lower bound where
            a token is not among the candidates that an engine listed.
        near_tie: the gap is no larger than log-probabilities differ by elsewhere.
    """

    prompt: int
    position: int
    first: int
    second: int
    gap: float
    near_tie: bool


@dataclass(frozen=True)
class Agreement:
    """The comparison of two engines' answers.

    Attributes:
        decision: in a word.
        prompts: prompts compared.
        equal: prompts with the same answer from end to end.
        positions: positions at which both had the same context.
        usual: difference of the chosen tokens' log-probabilities, in nats, that nine in ten
            positions stay below; None without a position.
        largest: largest one.
        divergences: where answers part, in the order of the prompts.
    """

    decision: Decision
    prompts: int = 0
    equal: int = 0
    positions: int = 0
    usual: float | None = None
    largest: float | None = None
    divergences: tuple[Divergence, ...] = ()


def prompts(seed: int) -> list[list[int]]:
    """The check's prompts as token ids; the same seed, the same prompts."""
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, PROMPTS])))
    drawn = rng.integers(_FIRST_TOKEN, _LAST_TOKEN, size=(PROMPTS, PROMPT_TOKENS))
    return [[int(token) for token in prompt] for prompt in drawn]


def compare(first: Answers | None, second: Answers | None) -> Agreement:
    """Compare two engines' answers to the same prompts.

    A divergence is a near tie when the gap is at most twice the largest difference at the other
    positions: a margin is the difference of two log-probabilities, each of which may move so far.
    The engines disagree when more than one position in ten differs by more than rounding gives,
    whatever the tokens are, or when most answers part away from a tie.
    """
    if first is None or second is None:
        return Agreement(Decision.NOT_CHECKED)
    if [a.prompt for a in first.answers] != [a.prompt for a in second.answers]:
        return Agreement(Decision.NOT_CHECKED)
    both = list(zip(first.answers, second.answers, strict=True))
    differences = [d for pair in both for d in _differences(*pair)]
    if not differences:
        usual = largest = None
    else:
        usual, largest = float(np.quantile(differences, USUAL)), max(differences)
    divergences = tuple(
        found
        for index, pair in enumerate(both)
        if (found := _divergence(index, *pair, tolerance=2 * (largest or 0.0))) is not None
    )
    return Agreement(
        decision=_decide(usual, divergences, len(both)),
        prompts=len(both),
        equal=len(both) - len(divergences),
        positions=len(differences),
        usual=usual,
        largest=largest,
        divergences=divergences,
    )


def _decide(usual: float | None, divergences: Sequence[Divergence], prompts: int) -> Decision:
    apart = sum(not d.near_tie for d in divergences)
    if usual is None or usual > USUAL_LIMIT or apart > ISOLATED_SHARE * prompts:
        return Decision.DISAGREE
    if apart:
        return Decision.ISOLATED
    return Decision.NEAR_TIES if divergences else Decision.AGREE


def problem(found: Agreement, first: str, second: str) -> str | None:
    """One sentence on what the answers of the two leave in doubt, None when they agree."""
    if found.decision is Decision.NOT_CHECKED:
        return f"the answers of {first} and {second} were not compared"
    if found.decision is not Decision.DISAGREE:
        return None
    parts = [f"{first} and {second} answer differently"]
    if found.usual is not None and found.usual > USUAL_LIMIT:
        parts.append(
            f"one log-probability in ten differs by more than {found.usual:.2f} nats, where "
            f"rounding gives at most {USUAL_LIMIT:g}"
        )
    if found.divergences:
        worst = max(found.divergences, key=lambda d: d.gap)
        parts.append(
            f"prompt {worst.prompt + 1} parts at token {worst.position + 1}, {worst.first} "
            f"against {worst.second}, {worst.gap:.2f} nats from a tie"
        )
    return ": ".join([parts[0], ", and ".join(parts[1:])])


def _contexts(first: Answer, second: Answer) -> Iterator[tuple[tuple[Candidate, ...], ...]]:
    """Both engines' candidates at every position with equal context."""
    for ours, theirs in zip(first.best, second.best, strict=False):
        yield ours, theirs
        if ours[0].token != theirs[0].token:
            return


def _differences(first: Answer, second: Answer) -> Iterator[float]:
    """Per position before the divergence, how far the chosen token's log-probabilities differ."""
    for ours, theirs in _contexts(first, second):
        if ours[0].token == theirs[0].token:
            yield abs(ours[0].logprob - theirs[0].logprob)


def _divergence(index: int, first: Answer, second: Answer, tolerance: float) -> Divergence | None:
    for position, (ours, theirs) in enumerate(_contexts(first, second)):
        if ours[0].token != theirs[0].token:
            gap = _margin(ours, theirs[0].token) + _margin(theirs, ours[0].token)
            tie = _lists(ours, theirs[0].token) and _lists(theirs, ours[0].token)
            return Divergence(
                prompt=index,
                position=position,
                first=ours[0].token,
                second=theirs[0].token,
                gap=gap,
                near_tie=tie and gap <= tolerance,
            )
    return None


def _lists(candidates: Sequence[Candidate], token: int) -> bool:
    return any(candidate.token == token for candidate in candidates)


def _margin(candidates: Sequence[Candidate], token: int) -> float:
    """How far the chosen token is ahead of ``token``, or of the last candidate listed."""
    rival = next((c for c in candidates if c.token == token), candidates[-1])
    return candidates[0].logprob - rival.logprob
