"""A run over two nodes: cancelled in the middle, gone on with in another allocation, rendered."""

import json
import re
from pathlib import Path

import pytest

from reproduce.engine import logs
from reproduce.outside.rundir import RunDir
from reproduce.outside.stored import sha256
from tests.cluster.conftest import of_job, slurm
from tests.conftest import command_line, unmeasured
from tests.waiting import wait_for

pytestmark = pytest.mark.cluster

# Slurm asks first and kills after KillWait.
CANCEL_LIMIT_S = 25


class Cancelled:
    """`sbatch` of the printed script, `scancel` in a rung, `--resume` from outside."""

    def __init__(self, runs: Path) -> None:
        script = runs / "job.sh"
        script.write_text(command_line("slurm-script", "--profile", "cpu-slurm").stdout)
        answer = slurm("sbatch", f"--output={runs}/job.log", str(script), "--profile",
                       "cpu-slurm", "--runs", str(runs))  # fmt: skip
        self.job = answer.split()[-1]
        wait_for(lambda: len(self.repeats(runs)) >= 2, 600, f"no repeats: {runs}/job.log")
        self.alive_before = len(of_job(self.job))
        slurm("scancel", self.job)
        wait_for(lambda: not of_job(self.job), CANCEL_LIMIT_S, "the engine outlived its job")
        wait_for(lambda: not slurm("squeue", "-h"), CANCEL_LIMIT_S, "the job is not over")
        self.before = {path: sha256(path) for path in self.repeats(runs)}
        self.log = (runs / "job.log").read_text()
        root = next(runs.glob("*/manifest.json")).parent
        self.resumed = command_line("run", "--resume", str(root))
        self.run = RunDir.open(root)

    @staticmethod
    def repeats(runs: Path) -> list[Path]:
        """Results that count."""
        found = runs.glob("*/raw/*/launch-*/*/rep-*.json")
        return [path for path in found if re.fullmatch(r"rep-\d+\.json", path.name)]


@pytest.fixture(scope="module")
def cancelled(cluster: Path, tmp_path_factory: pytest.TempPathFactory) -> Cancelled:
    return Cancelled(tmp_path_factory.mktemp("slurm-run"))


def test_it_is_finished_in_another_allocation(cancelled: Cancelled) -> None:
    assert cancelled.alive_before > 10
    done = cancelled.resumed
    assert done.returncode == 0, done.stdout + done.stderr
    assert Path(done.stdout.strip().splitlines()[-1]).name == "report.html"
    job = re.search(r"Granted job allocation (\d+)", done.stderr)
    assert job is not None
    assert job[1] != cancelled.job
    assert not of_job(job[1])
    assert slurm("squeue", "-h") == ""


def test_nothing_measured_is_lost_or_measured_again(cancelled: Cancelled) -> None:
    assert cancelled.before
    assert {path: sha256(path) for path in cancelled.before} == cancelled.before
    assert unmeasured(cancelled.run) == []
    assert cancelled.run.changed_files() == []


def test_every_node_of_every_arm_has_its_log(cancelled: Cancelled) -> None:
    for arm in cancelled.run.profile.arms:
        starts = sorted(cancelled.run.launch_dir(arm, 1).glob("start-*"))
        for start in starts:
            names = {path.name for path in start.glob("*.log*")}
            assert names == {"engine.log.gz", "engine.node-1.log.gz"}
        last = starts[-1]
        assert "rank 0 in world size 2" in logs.read(last / "engine.log")
        assert "rank 1 in world size 2" in logs.read(last / "engine.node-1.log")


def test_the_command_on_file_names_both_nodes(cancelled: Cancelled) -> None:
    start = cancelled.run.start_dir("native", 1, 1)
    command = json.loads((start / "command.json").read_text())
    (headless,) = command["headless"]
    for argv, rank in ((command["argv"], "0"), (headless, "1")):
        assert argv[argv.index("--nnodes") + 1] == "2"
        assert argv[argv.index("--node-rank") + 1] == rank
        assert argv[argv.index("--master-addr") + 1] == "127.0.0.1"
    assert "--headless" in headless
    assert "--headless" not in command["argv"]
