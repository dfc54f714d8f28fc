"""Text from anywhere, and the digits that were printed: made safe, made plain, made exact."""
