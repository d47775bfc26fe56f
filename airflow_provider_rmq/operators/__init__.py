"""Operators that publish, consume, and manage queues and exchanges."""
