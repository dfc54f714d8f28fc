"""Verdicts become pages: figures, fragments and templates, every number with its origin."""
