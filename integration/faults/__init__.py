"""Faults, one after another, on a site that works meanwhile: each says what was lost, what doubled, and how long."""
