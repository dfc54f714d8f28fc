"""The commands `budget` and `plan`: what fits on which GPUs."""

import json
from typing import Annotated, Any

import typer
from rich.table import Table

from reproduce.engine.meta_device import Answer, Question, ask
from reproduce.errors import ConfigError
from reproduce.memory.architecture import Arm, Precision, parse_architecture
from reproduce.memory.budget import GIB, Budget, Serving, budget_from_cache, budget_from_gpu
from reproduce.memory.inventory import take_inventory
from reproduce.memory.kv_cache import kv_bytes_per_token
from reproduce.memory.plan import PlannedTopology, RefusedTopology, plan_topologies
from reproduce.memory.sharding import RankMemory, shard
from reproduce.memory.topology import Topology
from reproduce.outside.catalog import load_config, load_gpu
from reproduce.outside.terminal import PlainConsole

ModelOption = Annotated[
    str, typer.Option(help="A name in data/models, or the path of a config.json.")
]
GpuOption = Annotated[str | None, typer.Option(help="A name in data/gpus.yaml.")]
QuantOption = Annotated[
    Precision | None, typer.Option(help="Type of the weights; the checkpoint's own if not given.")
]
ArmOption = Annotated[Arm, typer.Option(help="vLLM's own class, or the Transformers backend.")]
LengthOption = Annotated[
    int | None, typer.Option(help="Tokens of a full request; the model's own if not given.")
]
ShareOption = Annotated[float, typer.Option(help="Share of the GPU that vLLM may take.")]
BlockOption = Annotated[int, typer.Option(help="Tokens per block of the KV cache.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def register(app: typer.Typer) -> None:
    """Add this module's commands to the package's application."""
    app.command()(budget)
    app.command()(plan)


def budget(
    model: ModelOption,
    gpu: GpuOption = None,
    tp: Annotated[int, typer.Option(help="Tensor-parallel size.")] = 1,
    pp: Annotated[int, typer.Option(help="Pipeline-parallel size.")] = 1,
    dp: Annotated[int, typer.Option(help="Data-parallel size.")] = 1,
    ep: Annotated[bool, typer.Option("--ep", help="Expert parallelism.")] = False,
    quant: QuantOption = None,
    arm: ArmOption = "native",
    max_model_len: LengthOption = None,
    gpu_memory_utilization: ShareOption = 0.9,
    kv_gib: Annotated[
        list[float] | None,
        typer.Option(help="Size of the KV cache instead of a GPU; repeat it for each stage."),
    ] = None,
    block_size: BlockOption = 64,
    from_engine: Annotated[
        bool, typer.Option("--from-engine", help="Ask the installed vLLM; any architecture.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Memory of every rank of one topology, and the requests that its KV cache holds."""
    if gpu is None and not kv_gib:
        raise ConfigError("give --gpu, or the size of the cache with --kv-gib")
    config = load_config(model)
    topology = Topology(tp, pp, dp, ep)
    count = _count_by_engine if from_engine else _count_by_formula
    ranks, per_token, model_length = count(model, config, topology, quant, arm)
    length = model_length if max_model_len is None else max_model_len
    serving = Serving(length, gpu_memory_utilization, block_size)
    if kv_gib:
        result = budget_from_cache(ranks, per_token, kv_gib, serving)
    else:
        result = budget_from_gpu(ranks, per_token, load_gpu(str(gpu)), serving)
    if as_json:
        typer.echo(json.dumps(budget_as_dict(model, topology, result), indent=2))
    else:
        _print_budget(topology, result)


def plan(
    model: ModelOption,
    gpus: Annotated[int, typer.Option(help="How many GPUs.")],
    gpu: Annotated[str, typer.Option(help="A name in data/gpus.yaml.")],
    quant: QuantOption = None,
    arm: ArmOption = "native",
    max_model_len: LengthOption = None,
    gpu_memory_utilization: ShareOption = 0.9,
    block_size: BlockOption = 64,
    as_json: JsonOption = False,
) -> None:
    """Every topology of a number of GPUs that vLLM accepts, best KV cache first."""
    architecture = parse_architecture(load_config(model), model)
    length = architecture.max_position_embeddings if max_model_len is None else max_model_len
    planned, refused = plan_topologies(
        architecture,
        arm,
        quant or architecture.precision,
        gpus=gpus,
        gpu=load_gpu(gpu),
        serving=Serving(length, gpu_memory_utilization, block_size),
    )
    if as_json:
        rows = {
            "topologies": [
                {**budget_as_dict(model, p.topology, p.budget), "short_gib": round(p.short_gib, 3)}
                for p in planned
            ],
            "refused": [{"topology": _topology(r.topology), "reason": r.reason} for r in refused],
        }
        typer.echo(json.dumps(rows, indent=2))
    else:
        _print_plan(planned, refused)


def budget_as_dict(model: str, topology: Topology, budget: Budget) -> dict[str, Any]:
    """A budget in the shape that `--json` prints; sizes in bytes where exact, else in GiB."""
    overhead, low, high = budget.overhead_gib, budget.at_least, budget.at_most
    return {
        "model": model,
        "topology": _topology(topology),
        "ranks": [_rank(rank) for rank in budget.ranks],
        "kv_bytes_per_token": list(budget.kv_bytes_per_token),
        "total_memory_gib": budget.total_gib,
        "overhead_gib": [overhead.low, overhead.high] if overhead else None,
        "kv_gib": [[round(band.low, 3), round(band.high, 3)] for band in budget.kv_gib],
        "tokens": [low.tokens, high.tokens],
        "max_concurrency": [round(low.max_concurrency, 4), round(high.max_concurrency, 4)],
        "fits": budget.fits,
        "reason": budget.reason,
    }


def _topology(topology: Topology) -> dict[str, Any]:
    sizes = {"tp": topology.tp, "pp": topology.pp, "dp": topology.dp, "ep": topology.ep}
    return {**sizes, "label": topology.label}


def _rank(rank: RankMemory) -> dict[str, Any]:
    return {
        "stage": rank.stage,
        "rank_in_stage": rank.rank_in_stage,
        "layers": [rank.layers.start, rank.layers.stop - 1],
        "parameter_bytes": rank.parameter_bytes,
        "buffer_bytes": rank.buffer_bytes,
        "absorbed_bytes": rank.absorbed_bytes,
        "groups": {group.value: size for group, size in rank.group_bytes.items()},
    }


Count = tuple[tuple[RankMemory, ...], tuple[int, ...], int]


def _count_by_formula(
    model: str, config: dict[str, Any], topology: Topology, quant: Precision | None, arm: Arm
) -> Count:
    architecture = parse_architecture(config, model)
    inventory = take_inventory(architecture, arm, quant or architecture.precision)
    ranks = shard(architecture, inventory, topology)
    per_token = kv_bytes_per_token(architecture, topology)
    return ranks, per_token, architecture.max_position_embeddings


def _count_by_engine(
    model: str, config: dict[str, Any], topology: Topology, quant: Precision | None, arm: Arm
) -> Count:
    if quant == "fp8" and "quantization_config" not in config:
        raise ConfigError(f"{model}: no quantization_config, so no FP8 weights; use --quant bf16")
    if quant == "bf16":
        config = {key: value for key, value in config.items() if key != "quantization_config"}
    t = topology
    answers = ask(
        [Question(config, arm, t.tp, t.pp, t.dp, t.ep, stage=stage) for stage in range(t.pp)]
    )
    ranks, per_token = zip(*(_accepted(model, answer) for answer in answers), strict=True)
    return ranks, per_token, int(answers[0].max_model_len or 0)


def _accepted(model: str, answer: Answer) -> tuple[RankMemory, int]:
    if answer.memory is None:
        raise ConfigError(f"{model}: vLLM refuses this: {answer.refusal}")
    if answer.kv_bytes_per_token is None:
        raise ConfigError(
            f"{model}: its KV cache does not grow evenly with the tokens (sliding windows or "
            "state-space layers), so no tokens can be derived from its size"
        )
    return answer.memory, answer.kv_bytes_per_token


def _print_budget(topology: Topology, budget: Budget) -> None:
    table = Table(title=f"{topology.label}, GiB per GPU")
    table.add_column("")
    groups = list(budget.ranks[0].group_bytes)
    for rank in budget.ranks:
        table.add_column(f"stage {rank.stage}, rank {rank.rank_in_stage}", justify="right")
    for group in groups:
        sizes = (f"{rank.group_bytes[group] / GIB:.3f}" for rank in budget.ranks)
        table.add_row(group.value.replace("_", " "), *sizes)
    table.add_section()
    table.add_row("model", *(f"{rank.model_bytes / GIB:.3f}" for rank in budget.ranks))
    kv = (budget.kv_gib[rank.stage] for rank in budget.ranks)
    table.add_row("KV cache", *(_range(band.low, band.high, 2) for band in kv))
    console = PlainConsole()
    console.print(table)
    low, high = budget.at_least, budget.at_most
    console.print(
        f"KV cache: {_range(low.tokens, high.tokens, 0)} tokens, "
        f"{_range(low.max_concurrency, high.max_concurrency, 2)} full-length requests"
    )
    console.print(budget.reason, soft_wrap=True)


def _range(low: float, high: float, digits: int) -> str:
    texts = [f"{value:,.{digits}f}" for value in (low, high)]
    return texts[0] if texts[0] == texts[1] else "–".join(texts)


def _print_plan(planned: list[PlannedTopology], refused: list[RefusedTopology]) -> None:
    table = Table(title="full-length requests per replica; GiB per GPU")
    for name in ("topology", "fits", "model", "KV cache", "requests", "replicas", "short"):
        table.add_column(name, justify="left" if name == "topology" else "right")
    fits = {True: "yes", False: "no", "depends": "depends"}
    for row in planned:
        budget = row.budget
        fullest = max(budget.ranks, key=lambda rank: rank.model_bytes)
        band = budget.kv_gib[fullest.stage]
        table.add_row(
            row.topology.label,
            fits[budget.fits],
            f"{fullest.model_bytes / GIB:.2f}",
            _range(band.low, band.high, 2),
            _range(budget.at_least.max_concurrency, budget.at_most.max_concurrency, 2),
            str(row.topology.dp),
            f"{row.short_gib:.2f}" if row.short_gib else "",
        )
    console = PlainConsole()
    console.print(table)
    for refusal in refused:
        console.print(f"refused: {refusal.topology.label}: {refusal.reason}", soft_wrap=True)
