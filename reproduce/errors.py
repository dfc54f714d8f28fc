"""The package's own exceptions. Each message is one line: what is wrong, where, and the fix."""

from reproduce.text.printable import printable


class ReproduceError(Exception):
    """Base of every error a user can cause or meet; the command line prints it and exits 2."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(" ".join(message.split())))


class ConfigError(ReproduceError):
    """A profile, a parameter or a command-line value is not usable as given."""


class DataError(ReproduceError):
    """A stored file does not hold what its kind must hold."""


class StorageError(ReproduceError):
    """A file could not be written: the disk is full, read-only or gone."""

    def __init__(self, where: object, error: OSError) -> None:
        reason = error.strerror or str(error)
        super().__init__(f"{where}: cannot be written ({reason}): mend that, then resume the run")


class IncomparableError(ReproduceError):
    """Two results differ in something other than the arm under test."""


class EngineError(ReproduceError):
    """The serving engine could not be started, reached, or did not prove to be the right one."""


class LaunchError(EngineError):
    """A launch failed in a way that another start may mend: a crash, a deadline, a death."""


class WrongEngineError(EngineError):
    """A server is up and is another backend than its arm: another start would change nothing."""
