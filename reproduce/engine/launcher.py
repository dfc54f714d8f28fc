"""Where an engine starts: on this machine, or over the nodes of a Slurm allocation."""

from reproduce.engine.server import Server, ServerSpec, claim_port
from reproduce.engine.slurm import Allocation, SlurmServer
from reproduce.errors import ConfigError
from reproduce.plan.vllm_contract import NodeRank
from reproduce.profile import Profile


def ranks(profile: Profile) -> list[NodeRank | None]:
    """The places of an engine's nodes, node 0 first; a single None for an engine on one.

    Raises:
        ConfigError: this is no allocation, it is too small, or the nodes' port is taken.
    """
    nodes = profile.topology.nodes
    if nodes == 1:
        return [None]
    allocation = Allocation.current()
    if len(allocation.nodes) < nodes:
        raise ConfigError(
            f"topology.nodes: {nodes}, but job {allocation.job} has {len(allocation.nodes)}: "
            f"ask for --nodes={nodes}"
        )
    port = claim_port(profile.server.address, profile.server.master_port)
    return [NodeRank(rank, nodes, allocation.address, port) for rank in range(nodes)]


def start(profile: Profile, spec: ServerSpec) -> Server:
    """Start an engine."""
    if profile.launcher == "slurm":
        return SlurmServer(spec, profile, Allocation.current())
    return Server(spec)
