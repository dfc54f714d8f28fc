"""What an engine really ran, from its log and its answers."""
