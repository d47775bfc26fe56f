"""Stable import path of the TLS helper; it lives in `broker.tls`."""

from __future__ import annotations

from airflow_provider_rmq.broker.tls import build_ssl_context

__all__ = ["build_ssl_context"]
