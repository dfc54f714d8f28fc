"""What a run's report binds its numbers to: the run's own files and the repository's data."""

import functools
from collections.abc import Sequence
from typing import Final

import pandas as pd

from reproduce.outside.memo import once
from reproduce.outside.provenance import REPO
from reproduce.outside.rundir import RunDir
from reproduce.outside.stored import sha256
from reproduce.pages.display_claims import ClaimSources
from reproduce.pages.files import Files, pointer
from reproduce.pages.ladder_values import Origins
from reproduce.pages.lineage import Source
from reproduce.verdicts.claims import Judged, Standing

_PUBLISHED: Final = "data/published"
_CLAIMS: Final = "reproduce/claims.yaml"
_TABLE, _SETUP = f"{_PUBLISHED}/raw/table.json", f"{_PUBLISHED}/raw/setup.json"
_LOG: Final = f"{_PUBLISHED}/raw/transformers/launch-01/start-01/engine.log"
_OWN: Final = {
    "fusions": [(_LOG, "fusions")],
    "attention": [(_LOG, "attention_backend"), (_SETUP, "/native_engine/attention_backend")],
    "custom_fusions": [(_LOG, "custom_fusions"), (_SETUP, "/native_engine/custom_fusions")],
    "flags": [(_SETUP, "/differences_between_arms")],
    "stages": [(_SETUP, "/topology")],
    "total_memory": [(f"{_PUBLISHED}/memory_figures.json", "/figures")],
}
"""Rule on the article's own data → where these are, if not in its printed table."""


@once
def files_of(run: RunDir) -> Files:
    """Digests of everything that a report on the run can quote.

    Raw files are not read again: the manifest has their digests. What it does not list yet, such
    as the log of an engine that was killed, is hashed.
    """
    own = dict(run.manifest.files)
    for path in (run.root / "raw").rglob("*"):
        name = path.relative_to(run.root).as_posix()
        if name not in own and path.is_file():
            own[name] = sha256(path)
    for name in ("manifest.json", "profile.yaml"):
        own[name] = sha256(run.root / name)
    return Files({**_repository(), **own})


@functools.cache
def _repository() -> dict[str, str]:
    """Digests of the repository's data, the kept runs' raw files apart, and of the claims."""
    found = [*(REPO / "data").glob("*.*"), *(REPO / "data" / "models").glob("*")]
    found += [path for path in (REPO / _PUBLISHED).rglob("*") if path.is_file()]
    found.append(REPO / _CLAIMS)
    return {path.relative_to(REPO).as_posix(): sha256(path) for path in found}


def everything(files: Files) -> list[Source]:
    """What all claims together are judged from; a manifest stands for what it lists."""
    run = files.at("manifest.json", "/files")
    return [*files.at(_CLAIMS), *run, *files.at(f"{_PUBLISHED}/manifest.json", "/files"),
            *memory_sources(files)]  # fmt: skip


def claim_sources(
    run: RunDir, files: Files, measurements: pd.DataFrame, judged: Sequence[Judged]
) -> list[ClaimSources]:
    """Where the words on each claim come from."""
    ladder = Origins(measurements, files.digests)
    found = []
    for place, one in enumerate(judged):
        stated, own = files.at(_CLAIMS, pointer(place)), _checked(one, files)
        if one.claim.scope == "memory model":
            decided = memory_sources(files)
        elif one.claim.scope == "published data":
            decided = own
        elif one.claim.scope == "engine log":
            decided = _logged(run, one, files)
        else:
            decided = _measured(run, one, files, ladder)
        found.append(ClaimSources(tuple(stated), (*stated, *decided), tuple(own or stated)))
    return found


def memory_sources(files: Files, *gpus: str) -> list[Source]:
    """What the memory model is told of the article's model, and of the GPUs, all or some."""
    return [
        *files.at("data/models/deepseek-r1.json", "/config"),
        *(s for gpu in gpus for s in files.at("data/gpus.yaml", f"/gpus/{gpu}/total_gib")),
        *files.at("data/gpus.yaml", "/overhead_gib" if gpus else "/gpus"),
    ]


def _checked(one: Judged, files: Files) -> list[Source]:
    check = one.claim.check
    if check is None:
        return []
    if check.rule in _OWN:
        return [source for place in _OWN[check.rule] for source in files.at(*place)]
    results = files.like(f"{_PUBLISHED}/raw/*/launch-01/*/rep-01.json")
    return [*files.at(_TABLE, "/rows"), *files.at(_TABLE, "/means"), *results]


def _logged(run: RunDir, one: Judged, files: Files) -> list[Source]:
    test = one.claim.test
    fact = test.values.get("fact", "fusions") if test is not None else ""
    if test is not None and test.rule == "flags":
        return files.like("raw/*/launch-*/start-*/command.json", "/argv")
    settings = files.at("profile.yaml", "/model") + files.at(f"{_PUBLISHED}/profile.yaml", "/model")
    arms = (run.profile.baseline, run.profile.candidate)
    logs = [s for arm in arms for s in files.like(f"raw/{arm}/launch-*/*/engine*.log*", str(fact))]
    return logs + settings


def _measured(run: RunDir, one: Judged, files: Files, ladder: Origins) -> list[Source]:
    settings = files.at("profile.yaml", "/model") + files.at(f"{_PUBLISHED}/profile.yaml", "/model")
    test = one.claim.test
    if one.answer.standing is Standing.NOT_TESTABLE or test is None:
        return settings
    metric = str(test.values.get("metric", "total_tok_s"))
    arms = (run.profile.baseline, run.profile.candidate)
    return [*ladder.of("mean", metric, *arms), *settings]
