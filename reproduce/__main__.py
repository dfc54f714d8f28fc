"""``python -m reproduce``."""

from reproduce.cli import main

main()
