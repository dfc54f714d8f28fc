"""A profile carried out: measured, executed as notebooks, rendered."""
