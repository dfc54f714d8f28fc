"""Files of a run, or of anybody's, read into tables and verdicts."""
