"""The facts a run directory holds, as data: results, records, engine facts, manifest."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from reproduce.profile import Backend, Name

SCHEMA_VERSION = 2

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
# Paths are made of these: none of them leads out of the run directory.
RawPath = Annotated[str, Field(pattern=r"^raw(/[A-Za-z0-9_][A-Za-z0-9_.=+-]*)+$", max_length=512)]
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.=+-]*$", max_length=128)]


class Facts(BaseModel):
    """Base of stored facts: unknown keys are refused, so a newer writer is noticed."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class RungResult(BaseModel):
    """What one `vllm bench serve` result says, in this package's names.

    Times are in milliseconds, throughputs in tokens per second. A value that the file does not
    give is None: older clients lack some keys, and published tables give only rounded values.
    """

    model_config = ConfigDict(frozen=True)

    model: str | None = None
    prompts: int | None = None
    completed: int | None = None
    failed: int | None = None
    max_concurrency: int | None = None
    duration_s: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tok_s: float | None = None
    output_tok_s: float | None = None
    request_s: float | None = None
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    itl_ms: float | None = None
    e2el_ms: float | None = None
    ttft_median_ms: float | None = None
    tpot_median_ms: float | None = None
    itl_median_ms: float | None = None
    e2el_median_ms: float | None = None
    ttft_p99_ms: float | None = None
    tpot_p99_ms: float | None = None
    itl_p99_ms: float | None = None
    e2el_p99_ms: float | None = None


class ServerCounters(Facts):
    """Counters and gauges of the server's `/metrics`, summed over its engines."""

    running: float = Field(description="Requests being decoded.")
    waiting: float = Field(description="Requests queued.")
    prompt_tokens: float = Field(description="Prompt tokens since start.")
    generation_tokens: float = Field(description="Generated tokens since start.")
    prefix_cache_hits: float = Field(description="Prompt tokens found in the prefix cache.")


class Slot(Facts):
    """Where a repeat belongs in the plan."""

    arm: Name
    launch: int = Field(ge=1)
    rung: Name
    repeat: int = Field(ge=1)


class Probes(Facts):
    """What the probe said around one slice; see :mod:`reproduce.stats.disturbance`."""

    before_ms: float = Field(gt=0)
    after_ms: float = Field(gt=0)
    quiet_ms: float = Field(gt=0, description="The run's quiet level when the slice ended.")
    disturbed: bool


class RepeatRecord(Facts):
    """What the harness knows of one repeat, beside the client's untouched output."""

    slot: Slot
    start: int = Field(ge=1, description="Which start of this launch's server measured it.")
    order: int = Field(ge=0, description="Position in the order of measuring, over the whole run.")
    attempt: int = Field(ge=1)
    valid: bool
    reasons: tuple[str, ...] = Field(description="Why it does not count; empty when valid.")
    result: FileName | None = Field(description="Name of the client's file beside it, if any.")
    result_sha256: Sha256 | None
    started_at: AwareDatetime
    wall_s: float = Field(ge=0, description="Whole client process, warm-up included.")
    warmup_s: float | None = Field(default=None, ge=0, description="Test request and warm-ups.")
    warmups: int = Field(ge=0)
    argv: tuple[str, ...] = Field(description="The `vllm bench serve` arguments.")
    before: ServerCounters | None
    after: ServerCounters | None
    probes: Probes | None = Field(default=None, description="None: measured without a probe.")

    @property
    def disturbed(self) -> bool:
        """Whether the probe marked the slice."""
        return self.probes is not None and self.probes.disturbed


class Candidate(Facts):
    """A token and its log-probability (natural log)."""

    token: int = Field(ge=0)
    logprob: float


class Answer(Facts):
    """One greedy answer, token by token.

    ``best`` holds the most likely tokens of every position, the chosen one first; the engine
    may give fewer than asked for.
    """

    prompt: tuple[int, ...]
    best: tuple[tuple[Candidate, ...], ...]

    @property
    def tokens(self) -> tuple[int, ...]:
        """The chosen tokens."""
        return tuple(position[0].token for position in self.best)


class Answers(Facts):
    """What one engine, or the reference, answered to the agreement check's prompts."""

    source: str = Field(description="The engine's served model, or what computed the reference.")
    answers: tuple[Answer, ...]


class Fusion(Facts):
    """One module that the Transformers backend replaced, as the log names it."""

    source: str
    target: str


class EngineFacts(Facts):
    """What an engine log shows. None: the log does not say; empty: it says there is none."""

    version: str | None = None
    architecture: str | None = None
    backend: Backend | None = None
    attention_backend: str | None = None
    prefill_backend: str | None = None
    fusions: tuple[Fusion, ...] = ()
    custom_fusions: tuple[str, ...] = ()
    mla_fuser_failed: bool = False
    compiled: bool | None = None
    load_s: float | None = None
    weights_gib: tuple[float, ...] = Field(default=(), description="Per worker, where logged.")
    kv_memory_gib: tuple[float, ...] = Field(default=(), description="Per worker, where logged.")
    kv_tokens: int | None = None
    max_model_len: int | None = None
    max_concurrency: float | None = Field(default=None, description="Full-length requests.")


class ServerCommand(Facts):
    """How one server was started; on further nodes by ``headless``."""

    argv: tuple[str, ...]
    env: dict[str, str] = {}
    headless: tuple[tuple[str, ...], ...] = ()


class LaunchFacts(Facts):
    """One server start: what was asked, when, and what its log shows."""

    arm: Name
    launch: int = Field(ge=1)
    start: int = Field(ge=1)
    ready_s: float | None = Field(description="From process start to proven ready.")
    ready_at: AwareDatetime | None = Field(default=None, description="When it was proven ready.")
    engine: EngineFacts


class Failure(Facts):
    """Why one server start came to nothing, or died later, in the engine's last words."""

    arm: Name
    launch: int = Field(ge=1)
    start: int = Field(ge=1)
    at: datetime
    problem: str


class Manifest(Facts):
    """The run directory's list of contents and where it came from."""

    schema_version: int = SCHEMA_VERSION
    run_id: str
    profile: str
    created_at: datetime
    provenance: dict[str, Any]
    files: dict[RawPath, Sha256] = Field(description="sha256 of every raw file, by relative path.")
