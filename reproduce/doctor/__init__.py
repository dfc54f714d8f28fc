"""What a long run would stumble over, found before it starts."""

from pathlib import Path

from reproduce.doctor import cluster, machine, plan
from reproduce.doctor.checks import Check
from reproduce.errors import EngineError
from reproduce.profile import Profile


def examine(profile: Profile, runs: Path) -> list[Check]:
    """Look at everything that the profile needs; starts nothing."""
    disk = machine.disk(runs)
    if profile.kind == "published":
        return [disk]
    engine = [machine.engine(), machine.compiler(profile)]
    if profile.launcher == "slurm":
        return [*engine, plan.budget(profile), disk, *cluster.examine(profile, runs)]
    on_gpus = profile.topology.gpu is not None
    memory = (plan.budget if on_gpus else machine.memory)(profile)
    ports, model = machine.ports(profile), machine.model(profile)
    return [*engine, machine.cores(), memory, ports, disk, model]


def require(profile: Profile, runs: Path) -> list[Check]:
    """Like :func:`examine`, but the first failure is raised.

    Raises:
        EngineError: something the run cannot do without is missing.
    """
    checks = examine(profile, runs)
    for check in checks:
        if check.state == "fail":
            raise EngineError(check.found)
    return checks
