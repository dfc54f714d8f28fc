"""Imports vLLM's benchmark; a forkserver loads this module once, for every rung to come."""

import contextlib
import gc
import io

from reproduce.engine.vllm_main import answer_version_lookup

answer_version_lookup()

# torch remarks on a missing Triton while it is imported, on whatever stderr is then; the
# forkserver shares the terminal's.
with contextlib.redirect_stderr(io.StringIO()):
    from vllm.benchmarks import serve
    from vllm.utils.argparse_utils import FlexibleArgumentParser

# The benchmark collects garbage and freezes the heap before it measures. Done once here, every
# rung finds the imported modules frozen already and has only its own objects to go through.
gc.collect()
gc.freeze()

__all__ = ["FlexibleArgumentParser", "serve"]
