"""The command `airflow-rmq`: looks at and switches subscriptions, finds orphaned queues; needs no web server.

    airflow-rmq subscriptions list [--dag-id D] [--json]
    airflow-rmq subscriptions enable|disable ID ... [--dag-id D] [--json]
    airflow-rmq status [--json]
    airflow-rmq orphans [--conn-id C] [--delete [--yes] [--force]] [--json]

Runs where Airflow's configuration leads to its metadata database: beside a Scheduler, for one. Exit codes: 0 done, 1
something could not be asked or done, 2 the words were wrong. JSON goes to stdout alone, complaints to stderr.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Sequence

from airflow_provider_rmq import compat
from airflow_provider_rmq.errors import describe
from airflow_provider_rmq.watcher.cli.orphans import orphans
from airflow_provider_rmq.watcher.cli.output import complain
from airflow_provider_rmq.watcher.cli.subscriptions import list_subscriptions, status, switch

FAILED, INTERRUPTED = 1, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; its exit code."""
    arguments = parser().parse_args(argv)
    try:
        compat.session_factory()  # imports Airflow, which sets logging up
        log_to_stderr()
        return run(arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - a person at a shell wants one line, not a traceback
        complain(describe(error))
        return FAILED


def run(arguments: argparse.Namespace) -> int:
    """Run what was parsed."""
    command: Callable[[argparse.Namespace], int] = arguments.command
    return command(arguments)


def parser() -> argparse.ArgumentParser:
    """The words this command knows."""
    top = argparse.ArgumentParser(prog="airflow-rmq", description="RMQ Watcher of apache-airflow, from a shell.")
    verbs = top.add_subparsers(required=True, metavar="COMMAND")

    group = verbs.add_parser("subscriptions", help="list, enable, disable").add_subparsers(
        required=True, metavar="COMMAND"
    )
    listing = _verb(group, "list", list_subscriptions, "all subscriptions, or those of some DAGs")
    listing.add_argument("--dag-id", action="append", default=[], help="only this DAG; may be repeated")
    for word, enabled in (("enable", True), ("disable", False)):
        switching = _verb(group, word, switch, f"{word} subscriptions; the watcher follows in its next cycle")
        switching.add_argument("ids", nargs="*", type=int, metavar="ID", help="as `subscriptions list` shows it")
        switching.add_argument("--dag-id", action="append", default=[], help="all subscriptions of this DAG")
        switching.set_defaults(enabled=enabled)

    _verb(verbs, "status", status, "what the watcher last said about connections and subscriptions")

    finding = _verb(verbs, "orphans", orphans, "queues of the watcher's own that no subscription names any more")
    finding.add_argument(
        "--conn-id", action="append", default=[], help="look here; without it, all that rows of the watcher name"
    )
    finding.add_argument("--delete", action="store_true", help="delete them, one question each")
    finding.add_argument("--yes", action="store_true", help="with --delete: ask no questions")
    finding.add_argument("--force", action="store_true", help="with --delete: those with messages or consumers too")
    return top


def _verb(
    verbs: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    command: Callable[[argparse.Namespace], int],
    text: str,
) -> argparse.ArgumentParser:
    made = verbs.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
    made.add_argument("--json", action="store_true", help="for programs")
    made.set_defaults(command=command)
    return made


def log_to_stderr() -> None:
    """Airflow's handlers write to stdout, where JSON goes; warnings of ours are for whoever reads stderr."""
    root = logging.getLogger()
    known = [logger for logger in logging.root.manager.loggerDict.values() if isinstance(logger, logging.Logger)]
    for logger in known:
        logger.handlers.clear()
        logger.propagate = True
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("airflow-rmq: %(levelname)s %(message)s"))
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)


if __name__ == "__main__":
    sys.exit(main())
