"""`airflow-rmq orphans`: queues of the provider's own at the broker that no row and no DAG file names; lists, deletes.

Careful on purpose: a name that anything uses, on whatever broker, is nobody's orphan; every deletion is asked for;
a queue with messages or consumers stays unless forced, and is looked at once more right before it goes.
"""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import Iterable
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace

from airflow_provider_rmq import compat
from airflow_provider_rmq.broker.management import ListedQueue, ManagementApi
from airflow_provider_rmq.broker.settings import ConnectionSettings
from airflow_provider_rmq.broker.topology import PENDING_PREFIX, SUB_PREFIX
from airflow_provider_rmq.errors import BrokerError, describe
from airflow_provider_rmq.hooks.rmq import RMQHook
from airflow_provider_rmq.watcher.cli.output import complain, say, say_json, say_table
from airflow_provider_rmq.watcher.cli.tables import open_tables
from airflow_provider_rmq.watcher.dagfiles.file_reader import FileReader
from airflow_provider_rmq.watcher.dagfiles.scanner import DagFolderScanner
from airflow_provider_rmq.watcher.rows.owned_queues import OwnedQueues, owned_queues

#: Queue type whose deletion the broker itself makes conditional; quorum queues refuse the condition (540 on 3.10).
CLASSIC = "classic"
#: Outcomes that leave nothing undone; "kept" is a person's no.
DONE = ("found", "deleted", "kept", "gone already")


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphan:
    """A queue that nobody names; `outcome` says what became of it."""

    conn_id: str
    queue: str
    type: str
    messages: int | None
    consumers: int | None
    outcome: str = "found"


@dataclass(frozen=True, slots=True)
class Findings:
    """What the brokers said, and who could not be asked, with the reason."""

    orphans: tuple[Orphan, ...] = ()
    not_asked: dict[str, str] = field(default_factory=dict)


def orphans(arguments: Namespace) -> int:
    """List orphans, and with `--delete` delete them one by one; 1 when something could not be asked or done."""
    if arguments.delete and arguments.json and not arguments.yes:
        complain("--json leaves no room for questions; add --yes to delete")
        return 2
    with closing(open_tables()) as session:
        owned = owned_queues(session)
    conn_ids = arguments.conn_id or sorted(owned.conn_ids)
    findings = asyncio.run(find(conn_ids, _names(owned)))
    for conn_id, reason in findings.not_asked.items():
        complain(f"{conn_id} is left out: {reason}")
    shown = findings.orphans
    if not arguments.json:
        _say(shown, conn_ids)
    if arguments.delete:
        shown = tuple(_deleted(orphan, yes=arguments.yes, force=arguments.force) for orphan in shown)
        for orphan in () if arguments.json else shown:
            (say if orphan.outcome in DONE else complain)(f"{orphan.queue}: {orphan.outcome}")
    elif shown and not arguments.json:
        say("Nothing was deleted; airflow-rmq orphans --delete asks for each.")
    if arguments.json:
        say_json({"orphans": [asdict(orphan) for orphan in shown], "not_asked": findings.not_asked})
    done = all(orphan.outcome in DONE for orphan in shown)
    return 0 if done and not findings.not_asked else 1


def _names(owned: OwnedQueues) -> frozenset[str]:
    """Every name in use: what rows stand for, and what DAG files declare that have no row yet."""
    listing = DagFolderScanner(compat.dags_folder, compat.unignored_files, FileReader(compat.may_hold_dag)).read()
    if listing.distrust:
        complain(f"only the rows are looked at: {listing.distrust}")
    return owned.pending | owned.sub | {item.key.queue_name for item in listing.declarations}


async def find(conn_ids: Iterable[str], names: frozenset[str]) -> Findings:
    """Ask the management API of each Airflow connection."""
    api = ManagementApi(_look_up)
    found: dict[tuple[str | None, str, str], Orphan] = {}
    not_asked: dict[str, str] = {}
    for conn_id in conn_ids:
        try:
            settings = await _look_up(conn_id)
            queues = await api.queues(conn_id)
        except Exception as error:  # noqa: BLE001 - a secrets backend may raise anything; the others are asked
            not_asked[conn_id] = describe(error)
            continue
        for queue in queues:
            if is_orphan(queue, names):
                found.setdefault((settings.management_url, settings.vhost, queue.name), _orphan(conn_id, queue))
    return Findings(tuple(found.values()), not_asked)


def is_orphan(queue: ListedQueue, names: frozenset[str]) -> bool:
    """Whether it is one of ours and nobody names it."""
    return queue.name.startswith((PENDING_PREFIX, SUB_PREFIX)) and queue.name not in names


def _orphan(conn_id: str, queue: ListedQueue) -> Orphan:
    return Orphan(
        conn_id=conn_id, queue=queue.name, type=queue.type, messages=queue.messages, consumers=queue.consumers
    )


async def _look_up(conn_id: str) -> ConnectionSettings:
    return ConnectionSettings.from_record(await asyncio.to_thread(compat.airflow_connection, conn_id))


def _say(found: Iterable[Orphan], conn_ids: Iterable[str]) -> None:
    say_table(
        ("CONN_ID", "QUEUE", "TYPE", "MESSAGES", "CONSUMERS"),
        [(item.conn_id, item.queue, item.type, item.messages, item.consumers) for item in found],
        nothing=f"No orphaned queues ({', '.join(conn_ids) or 'no Airflow connection is known; see --conn-id'}).",
    )


def _deleted(orphan: Orphan, *, yes: bool, force: bool) -> Orphan:
    """Delete one orphan, or say why not."""
    with RMQHook(rmq_conn_id=orphan.conn_id, retry_count=1) as hook:
        try:
            outcome = _delete(hook, orphan, yes=yes, force=force)
        except Exception as error:  # noqa: BLE001 - a broker or a secrets backend; the next orphan is tried
            outcome = f"failed: {describe(error)}"
    return replace(orphan, outcome=outcome)


def _delete(hook: RMQHook, orphan: Orphan, *, yes: bool, force: bool) -> str:
    now = hook.queue_info(orphan.queue)
    if not now["exists"]:
        return "gone already"
    if now["message_count"] is None:
        return "refused: it is exclusive to another AMQP connection"
    held = [
        f"{now[key]} {word}"
        for key, word in (("message_count", "messages"), ("consumer_count", "consumers"))
        if now[key]
    ]
    if held and not force:
        return f"refused: it has {' and '.join(held)}; --force deletes it all the same"
    if not yes and not _confirmed(f"Delete queue {orphan.queue} ({', '.join(held) or 'empty'}) of {orphan.conn_id}?"):
        return "kept"
    conditional = orphan.type == CLASSIC and not force
    try:
        hook.queue_delete(orphan.queue, if_unused=conditional, if_empty=conditional)
    except BrokerError as error:
        return f"refused: {describe(error)}"
    return "deleted"


def _confirmed(question: str) -> bool:
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False
