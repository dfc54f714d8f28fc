"""The run directory: raw facts written once, a manifest of digests, everything else derived.

Layout, below the run's root::

    profile.yaml  manifest.json  journal.jsonl
    raw/<arm>/launch-NN/start-NN/{command.json,engine.log.gz,facts.json,agreement.json}
    raw/<arm>/launch-NN/start-NN/failure.json      why that start came to nothing, if it did
    raw/reference/agreement.json                   the answers that the model should give
    raw/<arm>/launch-NN/<rung>/rep-NN.json         the client's untouched output
    raw/<arm>/launch-NN/<rung>/rep-NN.record.json  what the harness knows of it
    raw/<arm>/launch-NN/<rung>/rep-NN.invalid-K.*  attempts that do not count, and why
    tables/  figures/  notebooks/  report.html     rebuilt from the above at any time

A launch that a resumed run had to start again has further ``start-NN`` directories.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from reproduce.errors import ConfigError, DataError
from reproduce.outside import untrusted
from reproduce.outside.stored import read_json, read_model, sha256, storing, write_atomic
from reproduce.profile import Profile
from reproduce.schemas import (
    SCHEMA_VERSION,
    Answers,
    Failure,
    LaunchFacts,
    Manifest,
    RepeatRecord,
    ServerCommand,
    Slot,
)
from reproduce.text import plain

_WHOLE = ("command.json", "facts.json", "agreement.json", "failure.json")
_DERIVED = ("tables", "figures", "notebooks")


def _start_of(path: Path) -> tuple[str, int, int]:
    """``raw/native/launch-02/start-01/facts.json`` → native, 2, 1."""
    launch, start = (int(p.name.rpartition("-")[2]) for p in (path.parents[1], path.parent))
    return path.parents[2].name, launch, start


class RunDir:
    """One run directory. Reading needs nothing; writing needs :meth:`writing`."""

    def __init__(self, root: Path, profile: Profile, manifest: Manifest) -> None:
        self.root = root.absolute()
        self.profile = profile
        self.manifest = manifest

    @classmethod
    def create(cls, root: Path, profile: Profile, provenance: dict[str, Any]) -> "RunDir":
        """Make a new run directory.

        Raises:
            ConfigError: ``root`` exists already or cannot be made.
        """
        try:
            root.mkdir(parents=True)
        except FileExistsError as error:
            raise ConfigError(f"{root}: exists already; resume it or name another") from error
        except OSError as error:
            raise ConfigError(f"{root}: cannot be made ({error.strerror})") from error
        text = yaml.safe_dump(profile.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
        write_atomic(root / "profile.yaml", text.encode())
        manifest = Manifest(
            run_id=root.name,
            profile=profile.name,
            created_at=datetime.now(UTC).replace(microsecond=0),
            provenance=provenance,
            files={},
        )
        run = cls(root, profile, manifest)
        run._save_manifest(manifest)
        return run

    @classmethod
    def open(cls, root: Path) -> "RunDir":
        """Open an existing run directory.

        Raises:
            DataError: it is none, it was written by a newer version of this package, or something
                in it leads out of it.
        """
        if not (root / "manifest.json").is_file():
            raise DataError(f"{root}: not a run directory (manifest.json is missing)")
        untrusted.inspect(root)
        data = read_json(root / "manifest.json")
        version = data.get("schema_version") if isinstance(data, dict) else None
        if isinstance(version, int) and version > SCHEMA_VERSION:
            raise DataError(
                f"{root}/manifest.json: schema_version {version} is newer than this package "
                f"reads ({SCHEMA_VERSION}): update the package"
            )
        manifest = read_model(Manifest, root / "manifest.json")
        try:
            data = plain.from_yaml((root / "profile.yaml").read_bytes())
            profile = Profile.model_validate(data)
        except (OSError, plain.NotPlainError, ValidationError) as error:
            reason = str(error).splitlines()[0]
            raise DataError(f"{root}/profile.yaml: not a profile ({reason})") from error
        return cls(root, profile, manifest)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the directory's lock; one writer at a time, freed by the kernel when it dies.

        Raises:
            ConfigError: another process is writing to it.
        """
        path = self.root / ".lock"
        with storing(path):
            lock = path.open("w")
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise ConfigError(f"{self.root}: another process is measuring into it") from error
            self._adopt()
            yield

    def _adopt(self) -> None:
        """List raw files that were written just before a kill; drop drafts and halves."""
        raw = self.root / "raw"
        files = dict(self.manifest.files)
        for path in sorted(p for p in raw.rglob("*") if p.is_file()):
            name = path.relative_to(self.root).as_posix()
            if path.name.startswith("."):
                path.unlink()
            elif name not in files and path.suffix != ".log":
                whole = path.name in _WHOLE or ".record." in path.name
                if whole or self._record_path(path).is_file():
                    files[name] = sha256(path)
                else:
                    path.unlink()
        self._save_manifest(self.manifest.model_copy(update={"files": files}))

    @staticmethod
    def _record_path(result: Path) -> Path:
        return result.with_name(f"{result.name.removesuffix('.json')}.record.json")

    def _save_manifest(self, manifest: Manifest) -> None:
        self.manifest = manifest
        text = manifest.model_dump_json(indent=2)
        write_atomic(self.root / "manifest.json", text.encode() + b"\n")

    def add_raw(self, *names: str) -> None:
        """List raw files that are complete, by path relative to the root."""
        added = {name: sha256(self.root / name) for name in names}
        files = dict(sorted({**self.manifest.files, **added}.items()))
        self._save_manifest(self.manifest.model_copy(update={"files": files}))

    def write_raw(self, name: str, data: bytes) -> None:
        """Write a raw file, once.

        Raises:
            DataError: it exists already; raw files are never edited.
        """
        path = self.root / name
        if path.exists():
            raise DataError(f"{path}: exists already; raw files are written once")
        write_atomic(path, data)
        self.add_raw(name)

    def launch_dir(self, arm: str, launch: int) -> Path:
        """Directory of one launch's raw files."""
        return self.root / "raw" / arm / f"launch-{launch:02d}"

    def start_dir(self, arm: str, launch: int, start: int) -> Path:
        """Directory of one server start within a launch."""
        return self.launch_dir(arm, launch) / f"start-{start:02d}"

    def next_start(self, arm: str, launch: int) -> int:
        """1 for a launch's first server start, more after a resume."""
        return 1 + len(list(self.launch_dir(arm, launch).glob("start-*")))

    def repeat_stem(self, slot: Slot) -> Path:
        """Path of a repeat's files, without their endings."""
        return self.launch_dir(slot.arm, slot.launch) / slot.rung / f"rep-{slot.repeat:02d}"

    def save_repeat(self, record: RepeatRecord, result: bytes | None) -> None:
        """Keep one attempt: the client's bytes as they are, then the record that counts it."""
        ending = "" if record.valid else f".invalid-{record.attempt}"
        stem = self.repeat_stem(record.slot)
        names = []
        if result is not None:
            path = stem.with_name(f"{stem.name}{ending}.json")
            write_atomic(path, result)
            names.append(path.relative_to(self.root).as_posix())
            digest = hashlib.sha256(result).hexdigest()
            record = record.model_copy(update={"result": path.name, "result_sha256": digest})
        path = stem.with_name(f"{stem.name}{ending}.record.json")
        write_atomic(path, record.model_dump_json(indent=2).encode() + b"\n")
        self.add_raw(*names, path.relative_to(self.root).as_posix())

    def records(self) -> list[RepeatRecord]:
        """Every attempt on file, in the order of measuring."""
        paths = (self.root / "raw").glob("*/launch-*/*/rep-*.record.json")
        found = [(path, read_model(RepeatRecord, path)) for path in paths]
        for path, record in found:
            if path.parent != self.repeat_stem(record.slot).parent:
                raise DataError(f"{path}: slot: is of another place: restore the file")
        return sorted((record for _, record in found), key=lambda r: (r.order, r.attempt))

    def attempts(self, slot: Slot) -> int:
        """How many invalid attempts of a repeat are on file."""
        stem = self.repeat_stem(slot)
        return len(list(stem.parent.glob(f"{stem.name}.invalid-*.record.json")))

    def is_measured(self, slot: Slot) -> bool:
        """Whether a valid result of the slot is on file and unharmed."""
        stem = self.repeat_stem(slot)
        record_path = stem.with_name(f"{stem.name}.record.json")
        if not record_path.is_file():
            return False
        record = read_model(RepeatRecord, record_path)
        path = stem.with_name(record.result or "")
        return path.is_file() and sha256(path) == record.result_sha256

    def launch_facts(self) -> list[LaunchFacts]:
        """Facts of every server start on file, by arm, launch and start."""
        paths = sorted((self.root / "raw").glob("*/launch-*/start-*/facts.json"))
        return [read_model(LaunchFacts, path) for path in paths]

    def failures(self) -> list[Failure]:
        """Why the latest start of an arm's launch failed, where it did; by arm and launch."""
        paths = sorted((self.root / "raw").glob("*/launch-*/start-*/failure.json"))
        found = [read_model(Failure, path) for path in paths]
        return [f for f in found if f.start + 1 == self.next_start(f.arm, f.launch)]

    def commands(self) -> dict[tuple[str, int, int], ServerCommand]:
        """How every server was started, by arm, launch and start."""
        paths = sorted((self.root / "raw").glob("*/launch-*/start-*/command.json"))
        return {_start_of(path): read_model(ServerCommand, path) for path in paths}

    def reference_path(self) -> Path:
        """Where the reference's answers are, or will be."""
        return self.root / "raw" / "reference" / "agreement.json"

    def reference(self) -> Answers | None:
        """The answers that the model should give, None where nothing could compute them."""
        path = self.reference_path()
        return read_model(Answers, path) if path.is_file() else None

    def answers(self, arm: str) -> dict[int, Answers]:
        """What an arm answered, by launch; the latest start of each."""
        paths = sorted((self.root / "raw" / arm).glob("launch-*/start-*/agreement.json"))
        return {
            int(path.parents[1].name.removeprefix("launch-")): read_model(Answers, path)
            for path in paths
        }

    def changed_files(self) -> list[str]:
        """Raw files whose bytes are not what the manifest says, or that are gone."""
        return [
            name
            for name, digest in self.manifest.files.items()
            if not (self.root / name).is_file() or sha256(self.root / name) != digest
        ]

    def derived(self, kind: str) -> Path:
        """Directory of derived files, made when needed: tables, figures or notebooks."""
        if kind not in _DERIVED:
            raise ValueError(kind)
        path = self.root / kind
        path.mkdir(exist_ok=True)
        return path

    def log_event(self, event: str, **details: Any) -> None:
        """Append one line to the journal, which a front end follows for progress."""
        line = {"at": datetime.now(UTC).isoformat(timespec="seconds"), "event": event, **details}
        path = self.root / "journal.jsonl"
        with storing(path), path.open("a+b") as file:
            # A write that failed half-way has left a line without an end.
            file.seek(max(0, file.seek(0, os.SEEK_END) - 1))
            begin = b"" if file.read(1) in (b"", b"\n") else b"\n"
            file.write(begin + json.dumps(line).encode() + b"\n")

    def events(self) -> list[dict[str, Any]]:
        """The journal so far; a last line that was cut off is left out."""
        path = self.root / "journal.jsonl"
        events = []
        for line in path.read_bytes().splitlines() if path.is_file() else []:
            try:
                event = plain.from_json(line)
            except plain.NotPlainError:
                continue
            events += [event] if isinstance(event, dict) else []
        return events
