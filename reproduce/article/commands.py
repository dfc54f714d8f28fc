"""The commands that the article prints, as bound values: made from profiles, not typed."""

import json
import shlex
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from reproduce.article.raw import REFERENCE, source
from reproduce.outside import profile_store
from reproduce.outside.rundir import RunDir
from reproduce.pages.lineage import Bound, worded
from reproduce.plan import vllm_contract
from reproduce.profile import Profile

SERVING = "h100-2x8"
"""The profile with the article's own servers."""


def commands() -> dict[str, Any]:
    """The article's servers and one of its clients, as the profile of two nodes has them."""
    path = f"reproduce/profiles/{SERVING}.yaml"
    origin = [source(path, ""), source("reproduce/profiles/published.yaml", "")]
    profile = profile_store.load(SERVING)
    base, tried = profile.baseline, profile.candidate
    port, count = profile.server.port or 0, profile.topology.nodes
    master = profile.server.master_port or 0
    nodes = [vllm_contract.NodeRank(rank, count, "$NODE0", master) for rank in range(count)]
    serve = [
        vllm_contract.serve_arguments(profile, tried, profile.model.id, port, node)
        for node in nodes
    ]
    swap = [vllm_contract.flag_arguments(profile.arms[arm].serve) for arm in (tried, base)]
    rung = next((r for r in profile.ladder if r.concurrency is None), profile.ladder[0])
    bench = vllm_contract.bench_arguments(
        profile, rung, 1, profile.model.id, port, f"{tried}__{rung.name}.json"
    )

    def shown(name: str, argv: Sequence[str], how: str) -> Bound:
        return worded(f"command.{name}", _pasted(argv), origin, f"vllm_contract.{how}")

    return {
        "profile": worded("command.profile", SERVING, [source(path, "/name")], "as stored"),
        "servers": [
            (worded(f"command.node.{place}", str(place), origin, "vllm_contract.NodeRank"),
             shown(f"serve.{place}", ["vllm", *argv], "serve_arguments"))
            for place, argv in enumerate(serve)
        ],
        "swap": [
            shown(f"swap.{arm}", argv, "flag_arguments")
            for arm, argv in zip((tried, base), swap, strict=True)
        ],
        "client": shown("client", ["vllm", "bench", "serve", *bench], "bench_arguments"),
        "launches": worded("command.launches", str(profile.launches), origin, "as stored"),
    }  # fmt: skip


def _pasted(argv: Sequence[str]) -> str:
    """A command over several lines, a flag never parted from its value."""
    words = [word if word.startswith("$") else shlex.quote(word) for word in argv]
    units = "".join((" " if word.startswith("--") else "\xa0") + word for word in words)
    lines = textwrap.wrap(units, 88, break_long_words=False, break_on_hyphens=False)
    return " \\\n  ".join(lines).replace("\xa0", " ").strip()


def run_command(run: RunDir) -> Bound:
    """The command that makes such a run: what its profile has beyond the stored one of its name."""
    stored = _flat(profile_store.load(run.profile.name))
    other = {key: value for key, value in _flat(run.profile).items() if stored.get(key) != value}
    words = [
        word
        for key, value in other.items()
        for word in ("-p", f"{key}={value if isinstance(value, str) else json.dumps(value)}")
    ]
    text = shlex.join(["reproduce", "run", "--profile", run.profile.name, *words])
    return worded("reference.command", text, [source(f"{REFERENCE}/profile.yaml", "")],
                  "difference from the stored profile")  # fmt: skip


def _flat(profile: Profile) -> dict[str, Any]:
    def leaves(data: dict[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
        for key, value in data.items():
            if isinstance(value, dict):
                yield from leaves(value, f"{prefix}{key}.")
            else:
                yield prefix + key, value

    return dict(leaves(profile.model_dump(mode="json"), ""))
