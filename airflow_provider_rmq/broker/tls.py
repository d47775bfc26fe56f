"""The TLS context of a connection, from the flat keys of its extra or from `ssl_options`."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from airflow_provider_rmq.errors import ConfigurationError, describe

T = TypeVar("T")

#: Keys of the extra that describe TLS, flat or inside `ssl_options`.
TLS_KEYS = frozenset({"ca_certs", "certfile", "keyfile", "cert_reqs"})
_CERT_REQS = ("CERT_REQUIRED", "CERT_OPTIONAL", "CERT_NONE")
_FALSE_WORDS = frozenset({"", "0", "false", "no", "off", "none"})


def is_tls_enabled(extra: Mapping[str, Any]) -> bool:
    """Whether `ssl_enabled` switches TLS on; the words people write for "no" count as no, too."""
    value = extra.get("ssl_enabled")
    return value.strip().lower() not in _FALSE_WORDS if isinstance(value, str) else bool(value)


def tls_options(extra: Mapping[str, Any]) -> dict[str, Any]:
    """The TLS keys that count: those of `ssl_options` win over the flat ones.

    Raises:
        ConfigurationError: `ssl_options` is neither an object nor text holding one.
    """
    nested = extra.get("ssl_options") or {}
    if isinstance(nested, str):
        try:
            nested = json.loads(nested)
        except ValueError as error:
            raise ConfigurationError(f"Invalid JSON in ssl_options: {error}") from error
    if not isinstance(nested, Mapping):
        raise ConfigurationError(f"ssl_options must be a JSON object, not {type(nested).__name__}")
    merged = {**extra, **nested}
    return {key: merged[key] for key in TLS_KEYS if merged.get(key)}


def build_ssl_context(extras: Mapping[str, Any]) -> ssl.SSLContext | None:
    """The context for these extras, None without `ssl_enabled`. Reads the certificate files.

    The certificate chain is loaded only where both `certfile` and `keyfile` are given. `CERT_NONE` switches the
    check of the certificate and of the host name off; every other value leaves both on.

    Raises:
        ConfigurationError: A key has a wrong value, or a file cannot be read.
    """
    if not is_tls_enabled(extras):
        return None
    options = tls_options(extras)
    cert_reqs = str(options.get("cert_reqs", "CERT_REQUIRED")).removeprefix("ssl.")
    if cert_reqs not in _CERT_REQS:
        raise ConfigurationError(f"cert_reqs must be one of {', '.join(_CERT_REQS)}, not {options['cert_reqs']!r}")
    context = _read(options, "ca_certs", lambda: ssl.create_default_context(cafile=options.get("ca_certs")))
    if cert_reqs == "CERT_NONE":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if "certfile" in options and "keyfile" in options:
        _read(options, "certfile", lambda: context.load_cert_chain(options["certfile"], options["keyfile"]))
    return context


def _read(options: Mapping[str, Any], key: str, load: Callable[[], T]) -> T:
    try:
        return load()
    except OSError as error:  # ssl.SSLError is one, for a file that is no certificate
        files = {name: options[name] for name in ("ca_certs", "certfile", "keyfile") if name in options}
        raise ConfigurationError(
            f"TLS files of the connection cannot be used ({key}): {files}: {describe(error)}"
        ) from error
