"""A search of a whole run directory for what gives somebody away."""

import gzip
import re
from collections.abc import Iterable
from pathlib import Path

# Pictures inside pages are long enough to hold any two letters by chance.
_PICTURE = re.compile(rb"data:image/[a-z+]+;base64,[A-Za-z0-9+/=]+")
_COMPRESSED = {".png", ".pdf"}


def found_in(root: Path, words: Iterable[str]) -> list[str]:
    """Every file that has one of the words, standing by itself, as "file: word"."""
    files = [path for path in sorted(root.rglob("*")) if path.is_file()]
    assert files
    return [
        f"{path.relative_to(root)}: {word}" for path in files for word in words if _has(path, word)
    ]


def _has(path: Path, word: str) -> bool:
    if path.suffix in _COMPRESSED and len(word) < 4:
        return False
    data = path.read_bytes()
    text = _PICTURE.sub(b"", gzip.decompress(data) if path.suffix == ".gz" else data)
    pattern = rb"(?<![A-Za-z0-9])" + re.escape(word.encode()) + rb"(?![A-Za-z0-9])"
    return re.search(pattern, text) is not None
