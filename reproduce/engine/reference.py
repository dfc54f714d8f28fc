"""What the tiny model should answer, computed without vLLM: Hugging Face, float32, one process.

``python -m reproduce.engine.reference CHECKPOINT SEED`` prints the answers as JSON. Two arms can
be wrong alike (a kernel that both use), and then agree with each other perfectly; this reference
shares neither kernels nor precision with them.
"""

import subprocess
import sys
from pathlib import Path

from reproduce.errors import EngineError
from reproduce.evidence import agreement
from reproduce.schemas import Answer, Answers, Candidate

_TIMEOUT_S = 300.0
_CANDIDATES = 2


def compute(checkpoint: Path, seed: int) -> Answers:
    """The reference's answers, from a process of its own.

    Raises:
        EngineError: the process failed, in its own last words.
    """
    command = [
        sys.executable, "-P", "-m", "reproduce.engine.reference", str(checkpoint), str(seed),
    ]  # fmt: skip
    try:
        done = subprocess.run(  # noqa: S603  our own interpreter and module
            command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        words = str(error.stderr or error).strip().splitlines()[-1][:240]
        raise EngineError(f"the reference answers could not be computed: {words}") from error
    return Answers.model_validate_json(done.stdout.splitlines()[-1])


def _decode(checkpoint: str, prompts: list[list[int]]) -> Answers:
    """Greedy decoding of all prompts as one batch, with a key-value cache."""
    import torch  # noqa: PLC0415  engine extra
    import transformers  # noqa: PLC0415  engine extra

    model = transformers.AutoModelForCausalLM.from_pretrained(
        checkpoint,
        dtype=torch.float32,
        local_files_only=True,
        experts_implementation="batched_mm",  # four times faster here than the default
    ).eval()
    best: list[list[tuple[Candidate, ...]]] = [[] for _ in prompts]
    step, cache = torch.tensor(prompts), None
    with torch.inference_mode():
        for _ in range(agreement.ANSWER_TOKENS):
            output = model(step, past_key_values=cache, use_cache=True)
            cache = output.past_key_values
            top = output.logits[:, -1].log_softmax(-1).topk(_CANDIDATES)
            step = top.indices[:, :1]
            for row, tokens, values in zip(
                best, top.indices.tolist(), top.values.tolist(), strict=True
            ):
                row.append(
                    tuple(
                        Candidate(token=token, logprob=value)
                        for token, value in zip(tokens, values, strict=True)
                    )
                )
    return Answers(
        source=f"Hugging Face transformers {transformers.__version__}, float32",
        answers=tuple(
            Answer(prompt=tuple(prompt), best=tuple(row))
            for prompt, row in zip(prompts, best, strict=True)
        ),
    )


def main() -> None:
    """Print the answers as one line of JSON."""
    checkpoint, seed = sys.argv[1:]
    print(_decode(checkpoint, agreement.prompts(int(seed))).model_dump_json())  # noqa: T201


if __name__ == "__main__":
    main()
