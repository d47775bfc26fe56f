"""Stable import paths for helpers; the implementations live in `messages` and `broker`."""
