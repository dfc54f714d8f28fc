"""With this directory in PYTHONPATH, what would be vLLM's server is the stand-in beside this file.

Everything around it stays real: the guard, the process group, the client, the journal. Only noise
is not looked for in a notebook's kernel, because a busy machine is not what is tested.
"""

import os
import sys
from pathlib import Path

if sys.orig_argv[1:3] == ["-m", "reproduce.engine.vllm_main"]:
    engine = str(Path(__file__).with_name("engine.py"))
    os.execv(sys.executable, [sys.executable, "-I", "-S", engine, *sys.orig_argv[3:]])  # noqa: S606

if "ipykernel_launcher" in sys.orig_argv:
    from reproduce.stats import disturbance

    disturbance.is_disturbed = lambda *_: False
