"""Imports vLLM's benchmark; a forkserver loads this module once, for every rung to come."""

from reproduce.engine.vllm_main import answer_version_lookup

answer_version_lookup()

from vllm.benchmarks import serve  # noqa: E402  the look-up above comes first
from vllm.utils.argparse_utils import FlexibleArgumentParser  # noqa: E402

__all__ = ["FlexibleArgumentParser", "serve"]
