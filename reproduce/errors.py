"""The package's own exceptions. Each message is one line: what is wrong, where, and the fix."""


class ReproduceError(Exception):
    """Base of every error a user can cause or meet; the command line prints it and exits 2."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


class ConfigError(ReproduceError):
    """A profile, a parameter or a command-line value is not usable as given."""


class DataError(ReproduceError):
    """A stored file does not hold what its kind must hold."""


class IncomparableError(ReproduceError):
    """Two results differ in something other than the arm under test."""


class EngineError(ReproduceError):
    """The serving engine could not be started, reached, or did not prove to be the right one."""
