"""The words of `airflow-rmq`, and which queues it calls orphans."""

import logging
import sys

import pytest

from airflow_provider_rmq.broker.management import ListedQueue
from airflow_provider_rmq.watcher.cli import main as command
from airflow_provider_rmq.watcher.cli.orphans import Orphan, _delete, is_orphan, orphans
from airflow_provider_rmq.watcher.cli.output import say_table


@pytest.mark.parametrize(
    "words",
    [
        ["subscriptions", "list"],
        ["subscriptions", "list", "--dag-id", "a", "--dag-id", "b"],
        ["subscriptions", "enable", "1", "2"],
        ["subscriptions", "disable", "--dag-id", "a"],
        ["status"],
        ["orphans"],
        ["orphans", "--conn-id", "c", "--delete", "--yes", "--force"],
    ],
)
def test_every_command_speaks_json(words):
    assert command.parser().parse_args([*words, "--json"]).json
    assert callable(command.parser().parse_args(words).command)


@pytest.mark.parametrize("words", [[], ["subscriptions"], ["nonsense"], ["subscriptions", "enable", "x"]])
def test_wrong_words_end_with_two(words, capsys):
    with pytest.raises(SystemExit) as caught:
        command.main(words)

    assert caught.value.code == 2


def test_a_failure_is_one_line_on_stderr(monkeypatch, capsys):
    def fail():
        raise RuntimeError("no database")

    monkeypatch.setattr(command.compat, "session_factory", fail)

    assert command.main(["status"]) == 1
    assert capsys.readouterr() == ("", "airflow-rmq: RuntimeError: no database\n")


def test_nothing_but_json_reaches_stdout_whatever_airflow_logs():
    root = logging.getLogger()
    before = (
        root.handlers[:],
        root.level,
        {
            logger: (logger.handlers[:], logger.propagate)
            for logger in logging.root.manager.loggerDict.values()
            if isinstance(logger, logging.Logger)
        },
    )
    noisy = logging.getLogger("noisy.on.stdout")
    noisy.addHandler(logging.StreamHandler(sys.stdout))
    try:
        command.log_to_stderr()

        assert noisy.handlers == []
        assert [handler.stream for handler in root.handlers] == [sys.stderr]
    finally:
        root.handlers[:], level, others = before
        root.setLevel(level)
        for logger, (handlers, propagate) in others.items():
            logger.handlers[:], logger.propagate = handlers, propagate


def test_deleting_with_json_takes_no_answers_so_it_needs_a_yes(capsys):
    assert orphans(command.parser().parse_args(["orphans", "--delete", "--json"])) == 2
    assert "--yes" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "orphaned"),
    [
        ("rmq_watcher.sub.gone", True),
        ("rmq_watcher.pending.gone", True),
        ("rmq_watcher.sub.used", False),
        ("rmq_watcher.fire", False),
        ("rmq_watcher.other.gone", False),
        ("orders", False),
        ("e.log", False),
    ],
)
def test_an_orphan_is_a_queue_of_ours_that_nobody_names(name, orphaned):
    assert is_orphan(ListedQueue(name, "classic"), frozenset({"rmq_watcher.sub.used"})) is orphaned


class Hook:
    """A broker with one queue."""

    def __init__(self, messages=0, consumers=0, exists=True):
        self.info = {"exists": exists, "message_count": messages, "consumer_count": consumers}
        self.deleted = []

    def queue_info(self, name):
        return self.info

    def queue_delete(self, name, *, if_unused, if_empty):
        self.deleted.append((name, if_unused, if_empty))


def orphan(kind="classic"):
    return Orphan(conn_id="c", queue="q", type=kind, messages=None, consumers=None)


@pytest.mark.parametrize(
    ("hook", "force", "outcome", "deleted"),
    [
        (Hook(), False, "deleted", [("q", True, True)]),
        (Hook(), True, "deleted", [("q", False, False)]),
        (Hook(exists=False), False, "gone already", []),
        (Hook(messages=None), True, "refused: it is exclusive to another AMQP connection", []),
        (Hook(messages=3), False, "refused: it has 3 messages; --force deletes it all the same", []),
        (Hook(3, 1), False, "refused: it has 3 messages and 1 consumers; --force deletes it all the same", []),
        (Hook(3, 1), True, "deleted", [("q", False, False)]),
    ],
)
def test_a_deletion_looks_once_more_and_is_conditional(hook, force, outcome, deleted):
    assert _delete(hook, orphan(), yes=True, force=force) == outcome
    assert hook.deleted == deleted


def test_a_quorum_queue_is_deleted_without_conditions_it_does_not_know():
    hook = Hook()

    _delete(hook, orphan("quorum"), yes=True, force=False)

    assert hook.deleted == [("q", False, False)]


@pytest.mark.parametrize(("answer", "outcome"), [("y", "deleted"), ("YES", "deleted"), ("", "kept"), ("n", "kept")])
def test_each_deletion_is_asked_for(monkeypatch, answer, outcome):
    asked = []
    monkeypatch.setattr("builtins.input", lambda question: asked.append(question) or answer)

    assert _delete(Hook(), orphan(), yes=False, force=False) == outcome
    assert asked == ["Delete queue q (empty) of c? [y/N] "]


def test_nobody_there_to_ask_means_no(monkeypatch):
    def nobody(question):
        raise EOFError

    monkeypatch.setattr("builtins.input", nobody)

    assert _delete(Hook(), orphan(), yes=False, force=False) == "kept"


def test_a_table_is_aligned_and_says_when_it_is_empty(capsys):
    say_table(("A", "LONG"), [("x", None), ("long value", True)], nothing="nothing")
    say_table(("A",), [], nothing="nothing")

    assert capsys.readouterr().out == "A           LONG\nx           -\nlong value  yes\nnothing\n"
