"""Intervals, equivalence, and when to stop: numbers in, numbers out."""
