"""Engine log text → what the engine really ran, and what is missing.

The log is the only witness: `/health` answers 200 for the wrong model, the wrong backend and a
kernel that computes nonsense. Wordings of vLLM from 0.8 to 0.32 are read, on CPU and CUDA, from
one process or several (source: the installed vLLM, and the log lines in the article).
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from reproduce.evidence.fusions import EXPECTED_FUSIONS, MLA_TARGET
from reproduce.schemas import EngineFacts, Fusion

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_REPEATED = re.compile(r"\[repeated \d{1,9}x across cluster\].*$")
_MAX_LINE = 4000

# At most so many digits: a longer number is none that an engine has.
_NUMBER = r"([0-9][0-9,]{0,20}(?:\.[0-9]{1,20})?)"
_PATTERNS: dict[str, re.Pattern[str]] = {
    "version": re.compile(
        r"LLM engine \(v?([^)\s]+)\)|\bversion (\d+\.\d[^\s]*)|vLLM API server version (\S+)"
    ),
    "architecture": re.compile(r"Resolved architecture: (\w+)"),
    "transformers": re.compile(r"Using Transformers (?:modeling )?backend"),
    "attention": re.compile(
        r"Using ([A-Z][A-Z0-9_]{2,})(?: attention)? backend(?: out of potential backends.*)?\.?$"
    ),
    "prefill": re.compile(r"Using (\w+) MLA prefill backend"),
    "mla_failed": re.compile(r"uses MLA but .?MLAFuser.? failed to match"),
    "custom": re.compile(r"Enabled custom fusions: (.+)$"),
    "eager": re.compile(r"enforce_eager=(True|False)"),
    "model_load": re.compile(
        rf"Model loading took {_NUMBER} Gi?B(?: memory)? and {_NUMBER} seconds"
    ),
    "weights_load": re.compile(rf"Loading model weights took {_NUMBER} Gi?B"),
    "load_only": re.compile(rf"Loading weights took {_NUMBER} seconds"),
    "kv_memory": re.compile(rf"Available KV cache memory: {_NUMBER} GiB"),
    "kv_memory_cpu": re.compile(rf"Explicitly set \({_NUMBER}/{_NUMBER}\) GiB for KV cache"),
    "kv_tokens": re.compile(rf"(?:GPU|CPU|XPU|TPU) KV cache size: {_NUMBER} tokens"),
    "concurrency": re.compile(rf"Maximum concurrency for {_NUMBER} tokens per request: {_NUMBER}x"),
}
_FUSED = re.compile(r"(?:^|\s)Fused: (.+)$")
_FUSION = re.compile(r"^(.+?) -> (.+)$")


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def clean_lines(text: str) -> Iterable[str]:
    """Lines without colour codes, carriage returns, Ray's folding marks and excess length."""
    for line in re.split(r"[\r\n]+", text):
        yield _REPEATED.sub("", _ANSI.sub("", line[:_MAX_LINE])).rstrip()


def parse_log(text: str) -> EngineFacts:
    """Read one server's log; never raises, whatever the text is.

    Where several workers log the same fact, weights and cache memory are kept per line, and the
    cache size is the smallest one, as the engine uses it.
    """
    found: dict[str, list[tuple[str, ...]]] = {name: [] for name in _PATTERNS}
    fusions: list[Fusion] = []
    for line in clean_lines(text):
        for fused in _FUSED.findall(line):
            fusions += [f for part in fused.split("; ") if (f := _fusion(part)) is not None]
        for name, pattern in _PATTERNS.items():
            if match := pattern.search(line):
                found[name].append(match.groups())

    def first(name: str, group: int = 0) -> str | None:
        return found[name][0][group] if found[name] else None

    attention = [name for (name,) in found["attention"]]
    load = [(_number(a), _number(b)) for a, b in found["model_load"]]
    weights = [gib for gib, _ in load] or [_number(g) for (g,) in found["weights_load"]]
    seconds = [s for _, s in load] or [_number(s) for (s,) in found["load_only"]]
    memory = [_number(g) for (g,) in found["kv_memory"]]
    memory = memory or [_number(g) for g, _ in found["kv_memory_cpu"]]
    tokens = [int(_number(t)) for (t,) in found["kv_tokens"]]
    concurrency = [(int(_number(n)), _number(x)) for n, x in found["concurrency"]]
    narrowest = min(concurrency, key=lambda pair: pair[1], default=None)
    architecture = first("architecture")
    versions = [next(filter(None, groups)) for groups in found["version"]]
    eager = first("eager")
    return EngineFacts(
        version=versions[-1] if versions else None,
        architecture=architecture,
        backend=_backend(architecture, bool(found["transformers"])),
        attention_backend=attention[0] if attention else None,
        prefill_backend=first("prefill"),
        fusions=tuple(dict.fromkeys(fusions)),
        custom_fusions=tuple((first("custom") or "").replace(" ", "").split(","))
        if found["custom"]
        else (),
        mla_fuser_failed=bool(found["mla_failed"]),
        compiled=None if eager is None else eager == "False",
        load_s=max(seconds, default=None),
        weights_gib=tuple(weights),
        kv_memory_gib=tuple(memory),
        kv_tokens=min(tokens, default=None),
        max_model_len=narrowest[0] if narrowest else None,
        max_concurrency=narrowest[1] if narrowest else None,
    )


def _fusion(text: str) -> Fusion | None:
    match = _FUSION.match(text.strip())
    return Fusion(source=match[1], target=match[2]) if match else None


def _backend(architecture: str | None, announced: bool) -> str | None:
    if announced or (architecture or "").startswith("Transformers"):
        return "transformers"
    return None if architecture is None else "native"


def head(target: str) -> str:
    """A fusion target without what follows its name: ``RMSNorm (CustomOp)`` → ``RMSNorm``."""
    return target.split(" ", 1)[0]


def missing_fusions(facts: EngineFacts, native_architecture: str | None) -> tuple[Fusion, ...]:
    """Expected fusions that the log does not show; empty for an architecture without a list."""
    shown = {(f.source, head(f.target)) for f in facts.fusions}
    expected = EXPECTED_FUSIONS.get(native_architecture or "", ())
    return tuple(f for f in expected if (f.source, f.target) not in shown)


@dataclass(frozen=True)
class Scope:
    """Whether a run's engines are the ones that the claim is about.

    Attributes:
        is_test: the run tests the claim.
        objections: why it does not, one sentence each; empty when it does.
        notes: differences worth reading that do not disqualify the run.
    """

    is_test: bool
    objections: tuple[str, ...]
    notes: tuple[str, ...]


def scope_of_claim(native: EngineFacts | None, transformers: EngineFacts | None) -> Scope:
    """Judge from both logs whether the run compares what the article compares.

    The claim is about native classes against the Transformers backend with MLA fused onto vLLM's
    own layer (article, "What the fuser actually replaced"). What no log shows counts against it.
    """
    objections: list[str] = []
    notes: list[str] = []
    if native is None or transformers is None:
        absent = [n for n, f in (("native", native), ("transformers", transformers)) if f is None]
        return Scope(False, tuple(f"no engine log of the {arm} arm" for arm in absent), ())
    for arm, facts in (("native", native), ("transformers", transformers)):
        if facts.backend is None:
            objections.append(f"the {arm} arm's log does not say which classes it loaded")
        elif facts.backend != arm:
            objections.append(
                f"the {arm} arm loaded {facts.architecture or 'unknown'} classes, "
                f"the {facts.backend} backend"
            )
    if native.architecture in EXPECTED_FUSIONS:
        for fusion in missing_fusions(transformers, native.architecture):
            sentence = f"fusion missing: {fusion.source} -> {fusion.target}"
            (objections if fusion.target == MLA_TARGET else notes).append(sentence)
    elif not any(head(f.target) == MLA_TARGET for f in transformers.fusions):
        objections.append(f"fusion missing: no module was mapped onto {MLA_TARGET}")
    if transformers.mla_fuser_failed:
        objections.append("the log warns that MLAFuser failed to match")
    notes += _differences(native, transformers, "native", "transformers")
    return Scope(not objections, tuple(objections), tuple(notes))


def scope_of_yardstick(facts: Mapping[str, EngineFacts | None]) -> Scope:
    """Judge whether two arms that should be the same engine are: what A against A needs.

    Args:
        facts: the two arms' facts by name.
    """
    (first, ours), (second, theirs) = facts.items()
    if ours is None or theirs is None:
        absent = [arm for arm, found in facts.items() if found is None]
        return Scope(False, tuple(f"no engine log of the {arm} arm" for arm in absent), ())
    objections = _differences(ours, theirs, first, second)
    if ours.backend != theirs.backend:
        objections.append(f"{first} is {_say(ours.backend)}, {second} is {_say(theirs.backend)}")
    return Scope(not objections, tuple(objections), ())


_COMPARED = (
    ("vLLM version", "version"),
    ("attention backend", "attention_backend"),
    ("prefill backend", "prefill_backend"),
    ("custom fusions", "custom_fusions"),
    ("compilation", "compiled"),
    ("KV capacity in tokens", "kv_tokens"),
)


def _differences(
    ours: EngineFacts, theirs: EngineFacts, our_name: str, their_name: str
) -> list[str]:
    """What two logs show differently, a sentence each."""
    return [
        f"{label} differs: {our_name} {_say(a)}, {their_name} {_say(b)}"
        for label, key in _COMPARED
        if (a := getattr(ours, key)) != (b := getattr(theirs, key))
    ]


def _say(value: object) -> str:
    if value is None or value == ():
        return "none logged"
    return ", ".join(value) if isinstance(value, tuple) else str(value)
