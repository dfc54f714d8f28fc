"""Nothing in a run directory names a user, a home, a host or a key."""

import socket
from pathlib import Path

import pytest

from reproduce.engine import model_source
from reproduce.outside import privacy, profile_store
from reproduce.outside.provenance import REPO
from reproduce.running import pipeline
from tests.conftest import command_line
from tests.traces import found_in

USER, TOKEN = "zoltan-the-9th", "hf_plantedPlanted"


@pytest.fixture
def somebody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user with a name, a home and a key; the home is returned."""
    home = tmp_path / "people" / USER
    home.mkdir(parents=True)
    for name, value in {"HOME": str(home), "USER": USER, "LOGNAME": USER}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setattr(socket, "gethostname", lambda: "node7.cluster.example")
    return home


def test_traces_give_way_to_what_a_shell_would_expand(somebody: Path) -> None:
    said = f"{somebody}/models on node7 by {USER} with {TOKEN}: /scratch/{USER}/x {REPO}/runs"
    assert privacy.scrub(said) == (
        "~/models on $HOSTNAME by $USER with $HF_TOKEN: /scratch/$USER/x ./runs"
    )


@pytest.mark.parametrize("text", ["node77", f"not{USER}", "hf_planted", "node7a"])
@pytest.mark.usefixtures("somebody")
def test_other_words_stay(text: str) -> None:
    assert privacy.scrub(text) == text


@pytest.mark.parametrize("before", ["\\n", "\x1b[0;34m", "/", "@", "'", "="])
@pytest.mark.usefixtures("somebody")
def test_a_name_is_found_wherever_it_begins(before: str) -> None:
    assert privacy.scrub(f"{before}node7") == f"{before}$HOSTNAME"


def test_bytes_that_are_no_text_stay_as_they_are(somebody: Path) -> None:
    assert privacy.scrub_bytes(b"\xff\x00" + bytes(somebody)) == b"\xff\x00~"


def test_an_account_that_names_nobody_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER", "root")
    monkeypatch.setenv("LOGNAME", "root")
    assert privacy.scrub("the root logger") == "the root logger"


SECRETS = {
    "SERVICE_KEY": 'a"b\\c/d+e=fgh',
    "SSH_PRIVATE_KEY": "-----BEGIN KEY-----\nlineOneOfTheKey\nshort\n-----END KEY-----",
    "DB_PASSWORD": "1234",
    "PROXY": "http://someone:pass@proxy:3128",
}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('key a"b\\c/d+e=fgh!', "key $SERVICE_KEY!"),
        ('{"env": "a\\"b\\\\c/d+e=fgh"}', '{"env": "$SERVICE_KEY"}'),
        ("?key=a%22b%5Cc%2Fd%2Be%3Dfgh&x", "?key=$SERVICE_KEY&x"),
        ("INFO lineOneOfTheKey\nINFO short", "INFO $SSH_PRIVATE_KEY\nINFO short"),
        (
            '"-----BEGIN KEY-----\\nlineOneOfTheKey\\nshort"',
            '"$SSH_PRIVATE_KEY\\n$SSH_PRIVATE_KEY\\nshort"',
        ),
        ("DB_PASSWORD=1234 tokens=1234", "DB_PASSWORD=$DB_PASSWORD tokens=1234"),
        ('"DB_PASSWORD": "1234"', '"DB_PASSWORD": "$DB_PASSWORD"'),
        ("DB_PASSWORD=12345", "DB_PASSWORD=12345"),
        ("from http://someone:pass@proxy:3128", "from http://$CREDENTIALS@proxy:3128"),
        ("git+https://ghp_token@host/x", "git+https://$CREDENTIALS@host/x"),
        ("https://host/a@b, mail a@b", "https://host/a@b, mail a@b"),
    ],
)
def test_secrets_of_any_form_give_way(
    text: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    assert privacy.scrub(text) == shown
    assert privacy.scrub(shown) == shown


def test_a_checkpoint_at_home_is_stored_without_the_home_and_found_again(
    somebody: Path, tmp_path: Path
) -> None:
    place = somebody / "models" / "mine"
    place.mkdir(parents=True)
    (place / "config.json").write_text("{}")
    profile = profile_store.load("smoke", {"model.id": str(place)})
    run = pipeline.create(profile, tmp_path / "runs")
    assert run.profile.model.id == "~/models/mine"
    assert not found_in(run.root, [USER])
    assert model_source.resolve(run.profile.model, tmp_path).workdir == place.parent


def test_a_replayed_run_names_nobody(somebody: Path) -> None:
    done = command_line("run", "--profile", "published", "--runs", str(somebody / "runs"))
    assert done.returncode == 0, done.stderr
    root = Path(done.stdout.strip().splitlines()[-1]).parent
    assert not found_in(root, [USER, TOKEN, str(somebody), str(REPO), host()])


def test_a_failed_notebook_names_nobody(somebody: Path) -> None:
    runs = somebody / "runs"
    command_line("run", "--profile", "published", "--runs", str(runs))
    (root,) = runs.iterdir()
    (root / "raw/native/launch-01/unbounded/rep-01.json").write_text("{")
    done = command_line("report", str(root))
    assert done.returncode == 2
    assert "not readable as JSON" in (root / "report.html").read_text()
    assert not found_in(root, [USER, TOKEN, str(somebody), str(REPO), host()])


def host() -> str:
    """The real one, for processes that this test starts."""
    return Path("/proc/sys/kernel/hostname").read_text().strip()
