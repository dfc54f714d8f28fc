"""The profile: everything that decides what a run measures, and nothing else.

A profile is plain data. Reading one from a file, and overriding keys by name, is
:mod:`reproduce.outside.profile_store`'s job; turning one into a schedule is
:mod:`reproduce.plan.ladder`'s.
"""

from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from reproduce.errors import DataError
from reproduce.handed_over import ClientFlags, Environment, ServeFlags

Backend = Literal["native", "transformers"]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]*$", max_length=64)]


class Strict(BaseModel):
    """Base of every configuration model: an unknown key is an error, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Model(Strict):
    """The served model."""

    id: str = Field(
        min_length=1,
        pattern=r"^[^\x00-\x1f\x7f]+$",
        description="'tiny-deepseek-v3' (made locally), a local checkpoint directory, or a hub id.",
    )
    seed: int = Field(default=20260804, ge=0, description="Seed of the tiny checkpoint's weights.")


class Arm(Strict):
    """One of the things compared: how its server is started, and what it must prove to be."""

    backend: Backend = Field(description="Which modeling code the engine log must show.")
    serve: ServeFlags = Field(
        default_factory=dict, description="`vllm serve` flags of this arm, without the dashes."
    )
    env: Environment = Field(
        default_factory=dict, description="Environment variables of this arm's server."
    )


class Topology(Strict):
    """How one engine is spread over devices."""

    tp: int = Field(default=1, ge=1, description="Tensor-parallel size.")
    pp: int = Field(default=1, ge=1, description="Pipeline-parallel size.")
    dp: int = Field(default=1, ge=1, description="Data-parallel size.")
    ep: bool = Field(default=False, description="Expert parallelism.")
    nodes: int = Field(default=1, ge=1, description="Machines that one engine runs on.")
    gpu: str | None = Field(
        default=None, description="A name in data/gpus.yaml, for the memory estimate."
    )


class Rung(Strict):
    """One workload of the ladder."""

    name: Name
    concurrency: int | None = Field(ge=1, description="Client concurrency; null is unbounded.")
    input_tokens: int = Field(ge=1, description="Prompt length in tokens.")
    output_tokens: int = Field(ge=2, description="Generated length in tokens, forced.")
    prompts: int = Field(ge=1, description="Requests in the measured part.")
    warmups: int | None = Field(
        default=None, ge=0, description="Warm-up requests; null means the rung's concurrency."
    )

    @property
    def in_flight(self) -> int:
        """Requests in flight at once when the rung is full."""
        return self.prompts if self.concurrency is None else min(self.concurrency, self.prompts)

    @property
    def warmup_requests(self) -> int:
        """Warm-ups that the client sends before the measured part."""
        return self.in_flight if self.warmups is None else self.warmups


class Server(Strict):
    """What both arms' servers have in common."""

    flags: ServeFlags = Field(
        default_factory=dict, description="`vllm serve` flags, without the dashes."
    )
    env: Environment = Field(default_factory=dict, description="Environment of the servers.")
    host: str | None = Field(
        default="127.0.0.1",
        pattern=r"^[A-Za-z0-9:][A-Za-z0-9.:_-]*$",
        description="Address the servers bind to; null sends none.",
    )
    port: int | None = Field(
        default=None, ge=1024, le=65535, description="Port of the first server; null picks one."
    )
    master_port: int | None = Field(
        default=None,
        ge=1024,
        le=65535,
        description="Port at which an engine's nodes find one another; null picks one.",
    )
    ready_timeout_s: float = Field(default=900, gt=0, description="Deadline from start to ready.")
    retries: int = Field(
        default=1, ge=0, description="Further starts of a launch whose server failed or died."
    )
    retry_wait_s: float = Field(
        default=10, ge=0, description="Pause before the first of them; it doubles each time."
    )

    @property
    def address(self) -> str:
        """Where the client on the same machine reaches the servers."""
        return self.host or "127.0.0.1"


class Client(Strict):
    """What every rung's `vllm bench serve` is told."""

    temperature: float | None = Field(
        default=0, ge=0, description="Sampling temperature; null sends none."
    )
    seeded: bool = Field(
        default=True, description="Send every repeat a seed of its own; false sends none."
    )
    detailed: bool = Field(default=True, description="Keep per-request arrays in the results.")
    flags: ClientFlags = Field(
        default_factory=dict, description="Further `vllm bench serve` flags, without the dashes."
    )
    rung_timeout_s: float = Field(
        default=600, gt=0, le=10_000_000, description="Deadline of one rung."
    )


class Precision(Strict):
    """How narrow the intervals must become, and between which limits measuring may go on.

    The rule is :func:`reproduce.stats.stopping.next_step`; it sees widths, never the verdict.
    """

    width: float = Field(
        gt=0, description="Full width of each rung's 95 % interval: 0.04 is 4 percentage points."
    )
    min_launches: int = Field(default=5, ge=1, description="Launches before the first look.")
    max_launches: int = Field(default=10, ge=1, description="Launches after which it ends.")
    min_repeats: int = Field(default=3, ge=1, description="Repeats of a rung in every launch.")
    max_repeats: int = Field(default=9, ge=1, description="Repeats of a rung per launch at most.")

    @model_validator(mode="after")
    def _in_order(self) -> "Precision":
        for kind in ("launches", "repeats"):
            if getattr(self, f"min_{kind}") > getattr(self, f"max_{kind}"):
                raise ValueError(f"min_{kind} is larger than max_{kind}")
        return self


class Slurm(Strict):
    """What the Slurm launcher asks for; partition and account come from Slurm's own settings."""

    gpus_per_node: int | None = Field(default=None, ge=1, description="GPUs of each node.")
    hours: float | None = Field(
        default=None,
        gt=0,
        le=8784,
        description="Time limit of the allocation; null is the partition's.",
    )


class Profile(Strict):
    """A complete, resolved profile."""

    name: Name
    description: str = Field(min_length=1, description="One line for `reproduce profiles`.")
    kind: Literal["measured", "published"] = Field(
        default="measured", description="Published profiles replay stored data; nothing starts."
    )
    model: Model
    arms: dict[Name, Arm] = Field(min_length=2, description="Arms by name, in the tables' order.")
    baseline: Name = Field(default="native", description="The arm that ratios divide by.")
    candidate: Name = Field(default="transformers", description="The arm under test.")
    topology: Topology = Topology()
    server: Server = Server()
    client: Client = Client()
    ladder: tuple[Rung, ...] = Field(min_length=1, description="Workloads, in the tables' order.")
    mean_tpot_over: tuple[Name, ...] = Field(
        default=(), description="Rungs in the mean TPOT and TTFT; empty means all of them."
    )
    launcher: Literal["local", "slurm"] = Field(
        default="local", description="Where servers start: this machine, or a Slurm allocation."
    )
    slurm: Slurm = Slurm()
    schedule: Literal["resident", "sequential"] = Field(
        default="resident",
        description="resident: all servers up, arms alternate; sequential: one server at a time.",
    )
    launches: int = Field(default=1, ge=1, description="Server starts per arm.")
    repeats: int = Field(default=3, ge=1, description="Repeats of each rung within a launch.")
    precision: Precision | None = Field(
        default=None, description="Measure until narrow; null means launches times repeats."
    )
    time_limit_s: float | None = Field(
        default=None, gt=0, description="No repeat starts later than this; null is no limit."
    )
    seed: int = Field(default=1, ge=0, description="Seed of prompts and of the order of arms.")
    margin: float = Field(
        default=0.03, gt=0, lt=1, description="Equivalence margin, as a share of the baseline."
    )
    source: str | None = Field(
        default=None, description="Run directory that a published profile replays."
    )

    def rung(self, name: str) -> Rung:
        """The rung of that name.

        Raises:
            DataError: the ladder has none, so what is about it is of another profile.
        """
        for rung in self.ladder:
            if rung.name == name:
                return rung
        raise DataError(f"rung {name!r:.80}: not in the ladder of profile {self.name}")

    @model_validator(mode="after")
    def _consistent(self) -> "Profile":
        names = [rung.name for rung in self.ladder]
        _no_repeats("ladder", names)
        for key in ("baseline", "candidate"):
            arm = getattr(self, key)
            if arm not in self.arms:
                raise ValueError(f"{key}: no arm is called '{arm}'; arms: {', '.join(self.arms)}")
        if self.baseline == self.candidate:
            raise ValueError("candidate: must be another arm than baseline")
        for name in self.mean_tpot_over:
            if name not in names:
                raise ValueError(f"mean_tpot_over: no rung is called '{name}'")
        asked = self.precision
        # Without both servers up there is no pair to judge a launch's noise by.
        adaptive = asked is not None and asked.min_repeats != asked.max_repeats
        if adaptive and self.schedule == "sequential":
            raise ValueError("precision: a sequential schedule needs min_repeats = max_repeats")
        if self.source is not None and not _is_below(self.source):
            raise ValueError("source: must be a path below the repository")
        if (self.kind == "published") != (self.source is not None):
            raise ValueError("source: given for published profiles, and only for them")
        if self.kind == "measured" and self.launcher == "local" and self.topology.nodes > 1:
            raise ValueError("topology.nodes: more than one needs launcher: slurm")
        return self


def _is_below(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return bool(parts) and parts[0] != "/" and ".." not in parts and "\0" not in path


def _no_repeats(key: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"{key}: two entries are called '{name}'")
        seen.add(name)
