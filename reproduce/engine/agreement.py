"""The agreement check's questions, put to a running server."""

from typing import Any

import requests
from requests.auth import AuthBase

from reproduce.errors import EngineError
from reproduce.evidence.agreement import ANSWER_TOKENS
from reproduce.schemas import Answer, Answers, Candidate

_CANDIDATES = 2
_TIMEOUT_S = 300.0


class Bearer(AuthBase):
    """What a request to one of our servers brings along; a ``.netrc`` does not replace it."""

    def __init__(self, api_key: str) -> None:
        self._api_key = api_key

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Add the key to a request that is about to be sent."""
        request.headers["Authorization"] = f"Bearer {self._api_key}"
        return request


def ask(url: str, model: str, prompts: list[list[int]], api_key: str) -> Answers:
    """Greedy answers with the log-probabilities of the two best tokens of every position.

    All prompts go in one request, so that the engine computes them in batches, as under load.

    Raises:
        EngineError: the server does not answer, or not with what was asked for.
    """
    body = {
        "model": model,
        "prompt": prompts,
        "max_tokens": ANSWER_TOKENS,
        "temperature": 0,
        "ignore_eos": True,
        "logprobs": _CANDIDATES,
        "return_tokens_as_token_ids": True,
    }
    try:
        answer = requests.post(
            f"{url}/v1/completions", json=body, auth=Bearer(api_key), timeout=_TIMEOUT_S
        )
        answer.raise_for_status()
        choices = sorted(answer.json()["choices"], key=lambda choice: choice["index"])
        answers = tuple(
            Answer(prompt=tuple(prompt), best=_best(choice["logprobs"]))
            for prompt, choice in zip(prompts, choices, strict=True)
        )
    except (requests.RequestException, ValueError, KeyError, TypeError) as error:
        raise EngineError(f"the agreement check got no answer from {url} ({error})") from error
    if any(len(answer.best) != ANSWER_TOKENS for answer in answers):
        raise EngineError(f"the agreement check got answers of the wrong length from {url}")
    return Answers(source=model, answers=answers)


def _best(logprobs: dict[str, Any]) -> tuple[tuple[Candidate, ...], ...]:
    """Per position the chosen token, then the others by falling log-probability."""
    positions = []
    columns = (logprobs["tokens"], logprobs["token_logprobs"], logprobs["top_logprobs"])
    for chosen, logprob, listed in zip(*columns, strict=True):
        others = sorted((-value, name) for name, value in listed.items() if name != chosen)
        ranked = [(chosen, logprob), *((name, -value) for value, name in others)]
        positions.append(
            tuple(Candidate(token=_token(name), logprob=value) for name, value in ranked)
        )
    return tuple(positions)


def _token(name: str) -> int:
    """``"token_id:17"`` → 17."""
    return int(name.removeprefix("token_id:"))
