"""What others say about memory, as data: rows of public logs, and the article's figures."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from reproduce.memory.architecture import Precision

Gib = Annotated[float, Field(gt=0, le=4096)]


class MemoryLog(BaseModel):
    """One row of data/memory_logs.csv: what a public vLLM log says about memory.

    Attributes:
        row: Short name.
        model: A stored model.
        quant: Type of the weights.
        gpu: Hardware; None where the log does not say.
        vllm_version: As far as the log gives it.
        tp: Tensor-parallel size.
        pp: Pipeline-parallel size.
        dp: Data-parallel size.
        ep: Expert parallelism.
        stage: Pipeline stage of the rank that logged.
        gpu_memory_utilization: As served.
        block_size: Tokens per block, from the log or from the number of tokens.
        max_model_len: As served.
        weight_gib: "Model loading took … GiB".
        kv_gib: "Available KV cache memory: … GiB".
        tokens: "GPU KV cache size: … tokens", or blocks times block size.
        max_concurrency: "Maximum concurrency for …".
        note: Why the model must differ from it, where that is known.
        source: Where the log was published.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    row: str
    model: str
    quant: Precision
    gpu: str | None
    vllm_version: str
    tp: int
    pp: int
    dp: int
    ep: bool
    stage: int
    gpu_memory_utilization: float | None
    block_size: int | None
    max_model_len: int | None
    weight_gib: Gib | None
    kv_gib: Gib | None
    tokens: int | None
    max_concurrency: float | None
    note: str | None
    source: str

    @property
    def is_current_nvidia(self) -> bool:
        """Whether the model claims to match: vLLM 0.11 or later, not on an AMD GPU."""
        major, minor = (int(part) for part in self.vllm_version.split(".")[:2])
        return (major, minor) >= (0, 11) and not (self.gpu or "").startswith("mi")


class PublishedFigure(BaseModel):
    """One memory figure of the article, as printed and where."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    value: float
    unit: str
    printed: str
    section: str
    scope: str
