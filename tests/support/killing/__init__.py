"""Programs that are killed at a chosen place."""
