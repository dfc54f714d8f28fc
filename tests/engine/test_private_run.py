"""A run on the real engine names nobody: logs, records, notebooks and page are searched."""

import getpass
import socket
from pathlib import Path

import pytest
from rocrate.rocrate import ROCrate

from reproduce.privacy import NOBODY
from reproduce.provenance import REPO
from reproduce.rundir import RunDir
from tests.traces import found_in

pytestmark = pytest.mark.engine


def test_nothing_in_it_names_user_home_or_host(smoke: RunDir) -> None:
    names = {getpass.getuser(), socket.gethostname()} - NOBODY
    words = [*names, str(Path.home()), str(REPO)]
    assert list(smoke.root.rglob("engine.log"))
    assert not found_in(smoke.root, words)
    assert not smoke.changed_files()


def test_it_is_an_archive_of_all_its_raw_files(smoke: RunDir) -> None:
    listed = {entity.id for entity in ROCrate(smoke.root).data_entities}
    assert listed >= smoke.manifest.files.keys() | {"report.html"}
