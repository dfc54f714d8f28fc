"""Ask the installed vLLM how much memory a model takes, without any.

vLLM builds the model of one rank on torch's meta device: every tensor has a shape and a type, and
none has storage. The parallel groups are stand-ins that only know sizes and ranks, so one process
plays any rank of any topology. This replaces vLLM's global state, so it happens in a child process
(`python -m reproduce.engine.meta_device`) that is asked many questions at once.

What runs after loading does not run here: absorbed copies are counted from the layers' shapes.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from reproduce.errors import EngineError
from reproduce.memory.architecture import Arm
from reproduce.memory.inventory import Group
from reproduce.memory.sharding import RankMemory

_GROUP_PATTERNS = (
    (r"_scale", Group.SCALES),
    (r"norm|\.(gate|router)\.", Group.NORMS),
    (r"embed_tokens|lm_head", Group.EMBEDDINGS),
    (r"shared_expert", Group.SHARED_EXPERTS),
    (r"experts", Group.ROUTED_EXPERTS),
    (r"attn", Group.ATTENTION),
    (r"", Group.DENSE_MLP),
)


@dataclass(frozen=True, slots=True)
class Question:
    """One rank of one served model.

    Attributes:
        config: The parsed config.json; drop its quantization_config to ask for BF16.
        arm: Which of vLLM's two implementations to build.
        tp: Tensor-parallel size.
        pp: Pipeline-parallel size.
        dp: Data-parallel size.
        ep: Expert parallelism.
        stage: Pipeline stage of the rank.
        rank_in_stage: Rank among the stage's TP × DP ranks.
        mla: False to ask under VLLM_MLA_DISABLE=1.
    """

    config: dict[str, Any] = field(hash=False)
    arm: Arm = "native"
    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: bool = False
    stage: int = 0
    rank_in_stage: int = 0
    mla: bool = True


@dataclass(frozen=True, slots=True)
class Answer:
    """What vLLM allocates, or why it refuses.

    Attributes:
        refusal: vLLM's own words; everything else is then None.
        memory: The rank's memory.
        kv_bytes_per_token: Bytes per token of the stage's cache specifications; None where the
            cache does not grow evenly with the tokens (sliding windows, state-space layers).
        block_size: Tokens per block on this machine's platform.
        max_model_len: Context length that vLLM derives from the configuration.
    """

    refusal: str | None = None
    memory: RankMemory | None = None
    kv_bytes_per_token: int | None = None
    block_size: int | None = None
    max_model_len: int | None = None


def ask(questions: Sequence[Question], *, timeout_s: float = 900) -> list[Answer]:
    """Answer questions about memory in one child process.

    A native model takes about a second, the Transformers class a few; importing vLLM about eight.

    Raises:
        EngineError: vLLM is not installed, or the child died; a refusal is an answer, not an error.
    """
    environment = {
        "VLLM_LOGGING_LEVEL": "ERROR",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_USE_V2_MODEL_RUNNER": "0",
    }
    with tempfile.TemporaryDirectory() as directory:
        answers_path = Path(directory) / "answers.json"
        try:
            child = subprocess.run(  # noqa: S603
                [sys.executable, "-P", "-m", __name__, str(answers_path)],
                input=json.dumps([asdict(question) for question in questions]),
                env={**os.environ, **environment},
                capture_output=True,
                text=True,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise EngineError(
                f"vLLM built nothing on the meta device within {timeout_s:g} s"
            ) from None
        if child.returncode:
            lines = child.stderr.strip().splitlines() or ["no output"]
            raise EngineError(f"vLLM could not build the model on the meta device: {lines[-1]}")
        return [_read_answer(answer) for answer in json.loads(answers_path.read_text())]


def _read_answer(answer: dict[str, Any]) -> Answer:
    memory = answer["memory"]
    if memory is None:
        return Answer(**answer)
    memory = RankMemory(
        **{
            **memory,
            "layers": range(*memory["layers"]),
            "group_bytes": {Group(name): size for name, size in memory["group_bytes"].items()},
        }
    )
    return Answer(**{**answer, "memory": memory})


def _stand_in(size: int, rank: int) -> SimpleNamespace:
    """A communication group that knows its size and rank, and cannot communicate."""
    handle = SimpleNamespace(size=lambda: size, rank=lambda: rank)
    return SimpleNamespace(
        world_size=size,
        rank_in_group=rank,
        rank=rank,
        local_rank=0,
        first_rank=0,
        last_rank=size - 1,
        is_first_rank=rank == 0,
        is_last_rank=rank == size - 1,
        ranks=list(range(size)),
        device_group=handle,
        cpu_group=handle,
        device_communicator=None,
        unique_name="stand-in",
    )


def _set_groups(question: Question) -> None:
    from vllm.distributed import parallel_state  # noqa: PLC0415

    dp_rank, tp_rank = divmod(question.rank_in_stage, question.tp)
    tp, pp, dp = question.tp, question.pp, question.dp
    groups = {
        "_WORLD": (tp * pp, question.stage * tp + tp_rank),
        "_TP": (tp, tp_rank),
        "_ETP": (tp, tp_rank),
        "_PP": (pp, question.stage),
        "_DP": (dp, dp_rank),
        "_EP": (tp * dp, question.rank_in_stage),
        "_PCP": (1, 0),
        "_DCP": (1, 0),
    }
    for name, (size, rank) in groups.items():
        setattr(parallel_state, name, _stand_in(size, rank))


def _prepare_vllm() -> None:
    """Stub the choices that need the real hardware and change no tensor's size."""
    from vllm.model_executor.layers.fused_moe.expert_map_manager import (  # noqa: PLC0415
        ExpertMapManager,
    )
    from vllm.model_executor.layers.quantization import fp8  # noqa: PLC0415
    from vllm.model_executor.models.transformers.fusers.moe import (  # noqa: PLC0415
        MoEBlockFuser,
    )
    from vllm.platforms import current_platform  # noqa: PLC0415

    fp8.init_fp8_linear_kernel = lambda **_: None
    fp8.select_fp8_moe_backend = lambda **_: (None, None)
    ExpertMapManager.get_compressed_map_string = lambda _: ""

    select_backend = current_platform.get_attn_backend_cls

    def select_dense_backend(
        selected_backend: Any, attn_selector_config: Any, **options: Any
    ) -> Any:
        dense = attn_selector_config._replace(use_sparse=False)
        return select_backend(selected_backend, dense, **options)

    current_platform.get_attn_backend_cls = select_dense_backend

    match_block = MoEBlockFuser.match
    matched: dict[type, Any] = {}

    def match_once_per_class(block: Any, experts_name: str) -> Any:
        """Tracing one block takes seconds, and all blocks of a class have the same code."""
        if type(block) not in matched:
            matched[type(block)] = match_block(block, experts_name)
        return matched[type(block)]

    MoEBlockFuser.match = match_once_per_class


def _build(question: Question) -> tuple[Any, Any]:
    """The rank's module on the meta device, and the engine configuration."""
    import torch  # noqa: PLC0415
    from vllm.engine.arg_utils import EngineArgs  # noqa: PLC0415
    from vllm.model_executor.model_loader.utils import initialize_model  # noqa: PLC0415
    from vllm.utils.torch_utils import set_default_torch_dtype  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as directory:
        config = {key: value for key, value in question.config.items() if key != "auto_map"}
        (Path(directory) / "config.json").write_text(json.dumps(config))
        engine = EngineArgs(
            model=directory,
            load_format="dummy",
            skip_tokenizer_init=True,
            enforce_eager=True,
            model_impl="vllm" if question.arm == "native" else "transformers",
        ).create_engine_config()
        parallel = engine.parallel_config
        parallel.tensor_parallel_size = question.tp
        parallel.pipeline_parallel_size = question.pp
        parallel.data_parallel_size = question.dp
        parallel.enable_expert_parallel = question.ep
        parallel.data_parallel_rank = question.rank_in_stage // question.tp
        parallel.world_size = question.tp * question.pp
        engine.model_config.verify_with_parallel_config(parallel)
        _set_groups(question)
        with set_default_torch_dtype(engine.model_config.dtype), torch.device("meta"):
            return initialize_model(engine), engine


def _group(name: str) -> Group:
    return next(group for pattern, group in _GROUP_PATTERNS if re.search(pattern, name))


def _absorbed_bytes(module: Any) -> Iterator[int]:
    """W_UK and W_UV in the activation type, per attention layer whose kv_b_proj is quantised."""
    for layer in module.modules():
        if type(layer).__name__ == "MLAAttention" and layer.kv_b_proj.weight.itemsize == 1:
            heads_width = layer.num_heads * (layer.qk_nope_head_dim + layer.v_head_dim)
            yield heads_width * layer.kv_lora_rank * 2


def _kv_bytes_per_token(engine: Any) -> int | None:
    from vllm.model_executor.layers.attention_layer_base import (  # noqa: PLC0415
        AttentionLayerBase,
    )
    from vllm.v1.kv_cache_interface import FullAttentionSpec  # noqa: PLC0415

    total = 0
    for layer in engine.compilation_config.static_forward_context.values():
        if not isinstance(layer, AttentionLayerBase):
            continue
        spec = layer.get_kv_cache_spec(engine)
        if spec is None:
            continue
        if not isinstance(spec, FullAttentionSpec) or spec.page_size_bytes % spec.block_size:
            return None
        total += spec.page_size_bytes // spec.block_size
    return total


def _answer(question: Question) -> Answer:
    from vllm.distributed.utils import get_pp_indices  # noqa: PLC0415

    os.environ["VLLM_MLA_DISABLE"] = "0" if question.mla else "1"
    try:
        module, engine = _build(question)
    except (ValueError, NotImplementedError, AssertionError, ZeroDivisionError) as error:
        return Answer(refusal=" ".join(f"{type(error).__name__}: {error}".split()))
    groups = Counter(dict.fromkeys(Group, 0))
    parameters = dict(module.named_parameters())
    for name, parameter in parameters.items():
        groups[_group(name)] += parameter.nbytes
    groups[Group.BUFFERS] = sum(buffer.nbytes for _, buffer in module.named_buffers())
    groups[Group.ABSORBED] = sum(_absorbed_bytes(module))
    layers = get_pp_indices(
        engine.model_config.hf_text_config.num_hidden_layers, question.stage, question.pp
    )
    memory = RankMemory(
        stage=question.stage,
        rank_in_stage=question.rank_in_stage,
        layers=range(*layers),
        group_bytes=dict(groups),
        parameter_bytes=sum(parameter.nbytes for parameter in parameters.values()),
        buffer_bytes=groups[Group.BUFFERS],
        absorbed_bytes=groups[Group.ABSORBED],
    )
    return Answer(
        memory=memory,
        kv_bytes_per_token=_kv_bytes_per_token(engine),
        block_size=engine.cache_config.block_size,
        max_model_len=engine.model_config.max_model_len,
    )


def _main() -> None:
    questions = [Question(**question) for question in json.load(sys.stdin)]
    _prepare_vllm()
    answers = [asdict(_answer(question)) for question in questions]
    for answer in answers:
        if answer["memory"]:
            layers = answer["memory"]["layers"]
            answer["memory"]["layers"] = (layers.start, layers.stop)
    Path(sys.argv[1]).write_text(json.dumps(answers))


if __name__ == "__main__":
    _main()
