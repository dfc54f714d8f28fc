"""Stored files and their digests: where values are bound to."""

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import filter as matching

from reproduce.pages.lineage import Source


@dataclass(frozen=True)
class Files:
    """What numbers can come from.

    Attributes:
        digests: sha256 by path: below the run's directory, or below the repository.
    """

    digests: Mapping[str, str]

    def at(self, path: str, pointer: str = "") -> list[Source]:
        """A place in a file; nothing where there is no such file."""
        digest = self.digests.get(path)
        return [] if digest is None else [Source(path, digest, pointer)]

    def like(self, pattern: str, pointer: str = "") -> list[Source]:
        """The same place in every file whose path matches, ``*`` standing for anything."""
        return [
            Source(path, self.digests[path], pointer)
            for path in sorted(matching(self.digests, pattern))
        ]

    def results(self, pointer: str = "") -> list[Source]:
        """The same place in the benchmark client's output of every repeat that counts."""
        found = self.like("raw/*/rep-*.json", pointer)
        return [one for one in found if one.path.rpartition("/")[2].count(".") == 1]


def pointer(*keys: str | int) -> str:
    """A JSON pointer: ``pointer("a/b", 0)`` → ``/a~1b/0``."""
    return "".join("/" + str(key).replace("~", "~0").replace("/", "~1") for key in keys)
