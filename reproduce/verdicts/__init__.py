"""Tables become verdicts: audits, confounders, claims, and what changed between runs."""
