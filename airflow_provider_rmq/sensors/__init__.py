"""The sensor that waits for a message."""
