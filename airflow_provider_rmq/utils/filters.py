"""Stable import path of the message filter; it lives in `messages.filters`."""

from __future__ import annotations

from airflow_provider_rmq.messages.filters import FilterVerdict, MessageFilter

__all__ = ["FilterVerdict", "MessageFilter"]
