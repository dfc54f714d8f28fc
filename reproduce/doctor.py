"""What a long run would stumble over, found before it starts."""

from pathlib import Path

from reproduce import cluster_doctor, machine_doctor, plan_doctor
from reproduce.checks import Check
from reproduce.errors import EngineError
from reproduce.profile import Profile


def examine(profile: Profile, runs: Path) -> list[Check]:
    """Look at everything that the profile needs; starts nothing."""
    disk = machine_doctor.disk(runs)
    if profile.kind == "published":
        return [disk]
    engine = [machine_doctor.engine(), machine_doctor.compiler(profile)]
    if profile.launcher == "slurm":
        return [*engine, plan_doctor.budget(profile), disk, *cluster_doctor.examine(profile, runs)]
    on_gpus = profile.topology.gpu is not None
    memory = (plan_doctor.budget if on_gpus else machine_doctor.memory)(profile)
    ports, model = machine_doctor.ports(profile), machine_doctor.model(profile)
    return [*engine, machine_doctor.cores(), memory, ports, disk, model]


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
