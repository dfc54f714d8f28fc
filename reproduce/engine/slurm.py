"""Slurm: the allocation a run lives in."""

import math

from reproduce.profile import Profile


def allocation_options(profile: Profile) -> list[str]:
    """What salloc and sbatch are asked for: whole nodes, one task on each."""
    options = [f"--nodes={profile.topology.nodes}", "--ntasks-per-node=1", "--exclusive"]
    if profile.slurm.gpus_per_node is not None:
        options.append(f"--gpus-per-node={profile.slurm.gpus_per_node}")
    if profile.slurm.hours is not None:
        options.append(f"--time={math.ceil(60 * profile.slurm.hours)}")
    return options
