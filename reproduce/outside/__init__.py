"""The outside world but for the engine: each module knows one part of it."""
