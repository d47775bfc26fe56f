"""What a broker's refusal means and what to do about it, in a person's words.

`refusal` reads the reply code and text of a closed channel or connection, whichever client library reports it;
`explain_connection` says why no connection came about. Both only speak; raising and retrying are their callers' part.
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass

from airflow_provider_rmq.errors import AccessRefused, BrokerError, QueueMissing, TopologyConflict, describe

_REFUSED_ACCESS = re.compile(
    r"(?:(?P<permission>configure|write|read) )?access to (?P<kind>queue|exchange|topic) '(?P<name>.*?)'"
    r".* in vhost '(?P<vhost>.*?)' refused for user '(?P<user>.*?)'"
)
_INEQUIVALENT = re.compile(
    r"inequivalent arg '(?P<argument>.*?)' for (?P<kind>queue|exchange) '(?P<name>.*?)' in vhost '(?P<vhost>.*?)': "
    r"received (?P<given>.*) but current is (?P<current>.*)"
)
_MISSING = re.compile(r"no (?P<kind>queue|exchange) '(?P<name>.*?)' in vhost '(?P<vhost>.*?)'")
_LOCKED = re.compile(r"locked queue '(?P<name>.*?)' in vhost")
_TOO_LARGE = re.compile(r"message size (?P<size>\d+) (?:is larger|larger) than (?:configured )?max size (?P<limit>\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What was asked of the broker: words for the error, and the permission each kind of object needs for it.

    RabbitMQ up to 3.13 does not say which permission it missed, so the operation has to.
    """

    what: str
    queue_permission: str = "configure"
    exchange_permission: str = "configure"


def reply_of(error: BaseException) -> tuple[int, str] | None:
    """Reply code and text of the broker's answer behind a client library's error, None where it gave none."""
    code = getattr(error, "reply_code", None)
    text = getattr(error, "reply_text", None)
    if isinstance(code, int) and code > 0 and isinstance(text, str):
        return code, text
    written = re.search(r"\((\d{3})\) ['\"](.*)['\"]", str(error), re.DOTALL)  # inside pika's Probable…Error
    if written:
        return int(written[1]), written[2].replace("\\'", "'")
    written = re.search(r"\b([A-Z]{3,}_[A-Z_]+) - (.*)", str(error), re.DOTALL)  # aiormq keeps the text only
    return (_CODES.get(written[1], 0), written[0]) if written and written[1] in _CODES else None


#: Names of the reply codes in RabbitMQ's texts.
_CODES = {
    "CONNECTION_FORCED": 320,
    "ACCESS_REFUSED": 403,
    "NOT_FOUND": 404,
    "RESOURCE_LOCKED": 405,
    "PRECONDITION_FAILED": 406,
    "NOT_ALLOWED": 530,
    "NOT_IMPLEMENTED": 540,
    "INTERNAL_ERROR": 541,
}


def refusal(error: BaseException, operation: Operation) -> BrokerError | None:
    """The broker's refusal as one of our errors, None where the error is none. The caller raises it `from error`."""
    reply = reply_of(error)
    if reply is None:
        return None
    code, text = reply
    explain = _EXPLAIN.get(code, _other)
    return explain(f"{operation.what}: {code} {text}", text, operation)


def _access(head: str, text: str, operation: Operation) -> BrokerError:
    found = _REFUSED_ACCESS.search(text)
    if found is None:
        if "reserved prefix" in text:
            return AccessRefused(f"{head}. Names that begin with amq. belong to RabbitMQ; choose another name")
        if "in exclusive use" in text:
            return AccessRefused(
                f"{head}. Another consumer reads the queue exclusively; rabbitmqctl list_consumers names it"
            )
        return AccessRefused(head)
    queue = found["kind"] == "queue"
    permission = found["permission"] or (operation.queue_permission if queue else operation.exchange_permission)
    patterns = " ".join(f"'<{part}>'" for part in ("configure", "write", "read"))
    return AccessRefused(
        f"{head}. User {found['user']!r} has no {permission} permission on {found['kind']} {found['name']!r} in vhost "
        f"{found['vhost']!r}. See what it has with: rabbitmqctl list_user_permissions {found['user']}; give it with: "
        f"rabbitmqctl set_permissions -p {found['vhost']} {found['user']} {patterns}, "
        f"where <{permission}> is a pattern that matches {found['name']!r}"
    )


def _missing(head: str, text: str, _operation: Operation) -> BrokerError:
    found = _MISSING.search(text)
    if found is None:
        return BrokerError(head)
    advice = f"{head}. There is no {found['kind']} {found['name']!r} in vhost {found['vhost']!r}; declare it first"
    return QueueMissing(advice) if found["kind"] == "queue" else BrokerError(advice)


def locked_queue(error: BaseException) -> str | None:
    """The exclusive queue behind a refusal with 405, None behind any other error."""
    reply = reply_of(error)
    found = _LOCKED.search(reply[1]) if reply is not None else None
    return found["name"] if found else None


def _locked(head: str, _text: str, _operation: Operation) -> BrokerError:
    return TopologyConflict(
        f"{head}. The queue is exclusive to the connection that declared it and disappears with it; "
        "rabbitmqctl list_queues name owner_pid and the management page of the queue name the owner"
    )


def _precondition(head: str, text: str, _operation: Operation) -> BrokerError:
    found = _INEQUIVALENT.search(text)
    if found:
        return TopologyConflict(
            f"{head}. The {found['kind']} {found['name']!r} exists with another {found['argument']}: given was "
            f"{found['given']}, it has {found['current']}. Declare it as it is, or delete it first"
        )
    too_large = _TOO_LARGE.search(text)
    if too_large:
        return BrokerError(
            f"{head}. A message of {too_large['size']} bytes exceeds the broker's max_message_size of "
            f"{too_large['limit']} bytes"
        )
    if "timed out" in text:
        return BrokerError(
            f"{head}. A delivery was not acknowledged within the broker's consumer_timeout; it is back in the queue"
        )
    if "prefetch count is not set" in text:
        return BrokerError(f"{head}. A stream queue needs a prefetch; set qos={{'prefetch_count': 100}}")
    if "x-stream-offset" in text:
        return BrokerError(f"{head}. Only stream queues have offsets; leave stream_offset out")
    return BrokerError(head)


def _not_allowed(head: str, text: str, _operation: Operation) -> BrokerError:
    return AccessRefused(head) if "refused" in text else BrokerError(head)


def _not_implemented(head: str, text: str, _operation: Operation) -> BrokerError:
    if "global qos" in text:
        return BrokerError(
            f"{head}. Quorum and stream queues know no global QoS; leave global_qos out and set prefetch_count, "
            "which then holds for each consumer"
        )
    if "basic.get" in text:
        return BrokerError(
            f"{head}. A stream queue cannot be polled; read it with RMQConsumeOperator(stream_offset='first') or with "
            "RMQHook.consume_messages(stream_offset='first')"
        )
    return BrokerError(head)


def _internal(head: str, text: str, _operation: Operation) -> BrokerError:
    if "transient_nonexcl" in text:
        return BrokerError(
            f"{head}. This broker takes no queue that is neither durable nor exclusive; set durable=True"
        )
    return BrokerError(head)


def _other(head: str, _text: str, _operation: Operation) -> BrokerError:
    return BrokerError(head)


_EXPLAIN: dict[int, Callable[[str, str, Operation], BrokerError]] = {
    403: _access,
    404: _missing,
    405: _locked,
    406: _precondition,
    530: _not_allowed,
    540: _not_implemented,
    541: _internal,
}


def explain_connection(error: BaseException, address: str, *, user: str, vhost: str) -> str:
    """Why no connection to `address` came about, in one sentence."""
    reply = reply_of(error)
    if reply is not None:
        return _explain_denial(reply[1], user=user, vhost=vhost)
    cause = _innermost(error)
    if isinstance(cause, socket.gaierror):
        return f"{address}: the host name is unknown ({cause.strerror})"
    if isinstance(cause, ConnectionRefusedError):
        return f"{address}: the port is refused; nothing listens there, or a firewall says so"
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"{address}: the broker's certificate is not accepted: {cause.verify_message}; see ca_certs"
    if isinstance(cause, ssl.SSLError):
        return (
            f"{address}: no TLS handshake ({cause.reason or describe(cause)}); if this is a port without TLS, set "
            "ssl_enabled to false or use the TLS port, usually 5671"
        )
    if "protocol" in type(error).__name__.lower() or "IncompatibleProtocol" in type(error).__name__:
        return (
            f"{address}: the broker closed the connection before AMQP began; if this is a TLS port, set ssl_enabled "
            "to true, and if it is no AMQP port, use 5672 or 5671"
        )
    if "timeout" in describe(error).lower() or "timed out" in describe(error).lower():
        return f"{address}: no answer in time; the host is unreachable, or a firewall drops the connection"
    return f"{address}: {describe(error)}"


def _explain_denial(text: str, *, user: str, vhost: str) -> str:
    if "Login was refused" in text or "ACCESS_REFUSED" in text:
        return f"the broker refused the login of user {user!r}: wrong user name or password ({text})"
    if "not found" in text:
        return f"there is no vhost {vhost!r} on the broker; create it with: rabbitmqctl add_vhost {vhost} ({text})"
    if "refused for user" in text:
        return (
            f"user {user!r} has no permission on vhost {vhost!r}; give it with: "
            f"rabbitmqctl set_permissions -p {vhost} {user} '.*' '.*' '.*' ({text})"
        )
    return text


def _innermost(error: BaseException) -> BaseException:
    """The operating system's error inside pika's wrappers, which keep it as an argument or attribute."""
    for _ in range(5):
        inner = getattr(error, "exception", None)
        if inner is None:
            inner = next((argument for argument in error.args if isinstance(argument, BaseException)), None)
        if inner is None:
            return error
        error = inner
    return error
