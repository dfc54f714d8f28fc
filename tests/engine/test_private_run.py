"""A run on the real engine names nobody: logs, records, notebooks and page are searched."""

import getpass
import socket
from pathlib import Path

import pytest
from rocrate.rocrate import ROCrate

from reproduce.outside.privacy import NOBODY
from reproduce.outside.provenance import REPO
from reproduce.outside.rundir import RunDir
from tests.engine.conftest import SECRETS, Watched
from tests.traces import found_in

pytestmark = pytest.mark.engine


def test_nothing_in_it_names_user_home_or_host(smoke: RunDir) -> None:
    names = {getpass.getuser(), socket.gethostname()} - NOBODY
    words = [*names, str(Path.home()), str(REPO)]
    assert list(smoke.root.rglob("engine.log.gz"))
    assert not found_in(smoke.root, words)
    assert not smoke.changed_files()


def test_its_servers_answer_nobody_else(watched: Watched) -> None:
    assert len(watched.doors) == len(watched.run.profile.arms)
    assert {door.statuses for door in watched.doors} == {(401, 401, 200)}
    keys = {door.key for door in watched.doors}
    assert len(keys) == len(watched.doors)
    assert min(map(len, keys)) >= 40
    told = [line for line in [*watched.command_lines, watched.printed]
            if any(key in line for key in keys)]  # fmt: skip
    assert told == []
    assert not found_in(watched.run.root, keys)


def test_secrets_around_it_are_not_in_it(watched: Watched) -> None:
    lines = [line for value in SECRETS.values() for line in value.splitlines()]
    secrets = [line for line in lines if "planted" in line.lower()]
    assert not found_in(watched.run.root, [*secrets, "planted-password"])
    assert not any(secret in watched.printed for secret in secrets)


def test_it_is_an_archive_of_all_its_raw_files(smoke: RunDir) -> None:
    listed = {entity.id for entity in ROCrate(smoke.root).data_entities}
    assert listed >= smoke.manifest.files.keys() | {"report.html"}
