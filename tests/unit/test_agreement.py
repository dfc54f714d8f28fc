"""Answers compared: what rounding explains, what it does not, and what is said about it."""

import pytest

from reproduce.evidence import agreement
from reproduce.evidence.agreement import Decision
from reproduce.schemas import Candidate
from tests.synthetic import answers


def parted(given, prompt, position, gap):
    """The same answers with one token swapped for its rival, ahead by ``gap``, and others after."""
    rows = list(given.answers)
    best = list(rows[prompt].best)
    first, second = best[position]
    best[position] = (
        Candidate(token=second.token, logprob=first.logprob),
        Candidate(token=first.token, logprob=first.logprob - gap),
    )
    best[position + 1 :] = [
        (Candidate(token=9, logprob=-8.0), Candidate(token=8, logprob=-9.0))
    ] * (len(best) - position - 1)
    rows[prompt] = rows[prompt].model_copy(update={"best": tuple(best)})
    return given.model_copy(update={"answers": tuple(rows)})


def near(given, prompt, position, gap):
    """The same answers where the two best tokens of one position are ``gap`` apart."""
    rows = list(given.answers)
    best = list(rows[prompt].best)
    first, second = best[position]
    best[position] = (first, second.model_copy(update={"logprob": first.logprob - gap}))
    rows[prompt] = rows[prompt].model_copy(update={"best": tuple(best)})
    return given.model_copy(update={"answers": tuple(rows)})


def test_an_engine_agrees_with_itself():
    found = agreement.compare(answers(), answers())
    assert found.decision is Decision.AGREE
    assert (found.prompts, found.equal, found.positions) == (8, 8, 512)
    assert found.usual == found.largest == 0
    assert agreement.problem(found, "a", "b") is None


def test_rounding_is_no_disagreement():
    found = agreement.compare(answers(), answers(0.02))
    assert found.decision is Decision.AGREE
    assert 0.02 < found.usual < 0.05 < found.largest


def test_a_flip_between_tied_tokens_is_a_near_tie_and_what_follows_is_not_compared():
    ours = near(answers(), prompt=2, position=10, gap=0.01)
    theirs = parted(answers(0.02), prompt=2, position=10, gap=0.01)
    found = agreement.compare(ours, theirs)
    assert found.decision is Decision.NEAR_TIES
    (divergence,) = found.divergences
    assert (divergence.prompt, divergence.position) == (2, 10)
    assert (divergence.first, divergence.second) == (1010, 2010)
    assert divergence.gap == pytest.approx(0.02)
    assert found.positions == 7 * 64 + 10
    assert found.equal == 7


def test_one_flip_away_from_a_tie_is_reported_as_isolated():
    found = agreement.compare(answers(0.01), parted(answers(0.02), 0, 5, gap=1.0))
    assert found.decision is Decision.ISOLATED
    assert found.divergences[0].gap > 3
    assert agreement.problem(found, "a", "b") is None


def test_most_prompts_parting_away_from_a_tie_is_disagreement():
    theirs = answers(0.01)
    for prompt in range(5):
        theirs = parted(theirs, prompt, 60, gap=1.0)
    found = agreement.compare(answers(), theirs)
    assert found.decision is Decision.DISAGREE
    text = agreement.problem(found, "native", "transformers")
    assert "native and transformers answer differently" in text
    assert "prompt 1 parts at token 61, 1060 against 2060, 4.00 nats from a tie" in text


def test_equal_tokens_with_shifted_log_probabilities_are_disagreement():
    found = agreement.compare(answers(), answers(0.3))
    assert found.equal == 8
    assert found.decision is Decision.DISAGREE
    assert "one log-probability in ten differs by more than" in agreement.problem(found, "a", "b")


def test_answers_that_never_share_a_position_disagree():
    theirs = answers()
    for prompt in range(8):
        theirs = parted(theirs, prompt, 0, gap=0.001)
    found = agreement.compare(answers(), theirs)
    assert found.decision is Decision.DISAGREE
    assert found.usual is None
    assert "parts at token 1" in agreement.problem(found, "a", "b")


def test_a_rival_that_is_not_listed_is_never_a_tie():
    ours = answers(0.5, prompts=1)
    best = list(ours.answers[0].best)
    best[3] = (Candidate(token=77, logprob=-1.0), Candidate(token=78, logprob=-1.0))
    theirs = ours.model_copy(
        update={"answers": (ours.answers[0].model_copy(update={"best": tuple(best)}),)}
    )
    assert not agreement.compare(ours, theirs).divergences[0].near_tie


@pytest.mark.parametrize(
    ("first", "second"),
    [(None, answers()), (answers(), None), (answers(), answers(prompts=7))],
    ids=["first missing", "second missing", "other prompts"],
)
def test_what_cannot_be_compared_is_not_checked(first, second):
    found = agreement.compare(first, second)
    assert found.decision is Decision.NOT_CHECKED
    assert "were not compared" in agreement.problem(found, "a", "b")


def test_prompts_follow_from_the_seed_alone():
    assert agreement.prompts(1) == agreement.prompts(1) != agreement.prompts(2)
    assert {len(prompt) for prompt in agreement.prompts(1)} == {agreement.PROMPT_TOKENS}
    assert all(300 <= token < 4000 for prompt in agreement.prompts(3) for token in prompt)
