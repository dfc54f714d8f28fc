"""A profile becomes a plan: what to measure, in which order, with which flags."""
