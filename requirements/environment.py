"""Pins on standard input → environment.yml on standard output."""

import sys

HEAD = """\
# Everything but the engine, for conda and Binder: replay, explore, rebuild the article.
# The engine is a complete lock of its own: pip install --no-deps -r requirements/cpu.txt
name: reproduce
channels: [conda-forge]
dependencies:
  - python=3.11
  - pip
  - make
  - cxx-compiler
  - pip:
"""

pins = sorted(line.strip() for line in sys.stdin if "==" in line)
sys.stdout.write(HEAD + "".join(f"      - {pin}\n" for pin in [*pins, "-e ."]))
