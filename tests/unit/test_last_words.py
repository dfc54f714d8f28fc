"""What a fallen engine is said to have died of."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reproduce.engine.process import ending
from reproduce.evidence.last_words import last_words
from reproduce.text.printable import printable

TRACE = "Traceback (most recent call last):\n  File x, line 3\n"
ROOT = "RuntimeError: Engine core initialization failed. See root cause above."


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("", "its log is empty"),
        ("\n \n", "its log is empty"),
        ("INFO started\n", "INFO started"),
        (f"{TRACE}ValueError: no such model\nINFO bye\n", "ValueError: no such model"),
        (f"{TRACE}MemoryError\n{ROOT}\n", "memory ran out: MemoryError"),
        (
            f"RuntimeError: DefaultCPUAllocator: can't allocate memory: you tried 12 bytes\n{ROOT}",
            "memory ran out: RuntimeError: DefaultCPUAllocator: can't allocate memory: "
            "you tried 12 bytes",
        ),
        (
            f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n{ROOT}",
            "memory ran out: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",
        ),
        (f"WARNING lower it if you run out of memory\n{ROOT}\n", ROOT),
        ("\x00\x1b[2Jerror\x07", r"\x00error\x07"),
    ],
)
def test_the_line_that_says_most(log: str, words: str) -> None:
    assert last_words(log) == words


@given(st.one_of(st.text(), st.binary().map(lambda data: data.decode(errors="replace"))))
def test_any_log_gives_one_line_that_a_terminal_can_show(log: str) -> None:
    words = last_words(log)
    assert printable(words) == words
    assert "\n" not in words
    assert 0 < len(words) < 300


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (3, "exited with status 3"),
        (255, "exited with status 255"),
        (-15, "was killed by SIGTERM"),
        (139, "was killed by SIGSEGV"),
        (137, "was killed by SIGKILL (as the kernel does when memory runs out)"),
    ],
)
def test_how_a_process_ended(status: int, words: str) -> None:
    assert ending(status) == words
