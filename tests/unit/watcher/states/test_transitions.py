"""The consumer's state machine: its table, and what holds after any sequence of events."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_rmq.watcher.states import (
    Attached,
    Attaching,
    AwaitingDag,
    BrokerConfirmed,
    BrokerDenied,
    ConsumerState,
    DagNotReady,
    Delivered,
    Detached,
    QueueMissing,
    Registration,
    StartFailed,
    Stopped,
    SubscriptionStatus,
    Unreadable,
    advance,
)

CONNECTING, LISTENING = SubscriptionStatus.CONNECTING, SubscriptionStatus.LISTENING
ERROR, DISCONNECTED = SubscriptionStatus.ERROR, SubscriptionStatus.DISCONNECTED
HERE = Registration("tag", 1.0)


def after(*events):
    state = ConsumerState()
    for event in events:
        state = advance(state, event)
    return state


@pytest.mark.parametrize(
    ("events", "row"),
    [
        ([Attaching()], (CONNECTING, None)),
        ([AwaitingDag("not yet")], (CONNECTING, "not yet")),
        ([Attached(HERE)], (LISTENING, None)),
        ([Attached(HERE), Delivered()], (LISTENING, None)),
        ([Attached(HERE), StartFailed("boom")], (ERROR, "boom")),
        ([Attached(HERE), StartFailed("boom"), Delivered()], (LISTENING, None)),
        ([Attached(HERE), StartFailed("boom"), DagNotReady("soon")], (LISTENING, None)),
        ([Attached(HERE), *[DagNotReady("soon")] * 24], (LISTENING, None)),
        ([Attached(HERE), *[DagNotReady("soon")] * 25], (ERROR, "soon")),
        ([Attached(HERE), *[DagNotReady("soon")] * 24, Delivered(), DagNotReady("soon")], (LISTENING, None)),
        ([Attached(HERE), Detached("link lost")], (ERROR, "link lost")),
        ([Attached(HERE), Detached()], (CONNECTING, None)),
        ([Attached(HERE), Detached("link lost"), Delivered()], (ERROR, "link lost")),
        ([Attached(HERE), Detached(), StartFailed("late")], (CONNECTING, None)),
        ([QueueMissing("no queue")], (ERROR, "no queue")),
        ([QueueMissing("no queue"), Attached(HERE)], (LISTENING, None)),
        ([Attached(HERE), Stopped()], (DISCONNECTED, None)),
        ([Attached(HERE), BrokerDenied("tag", "gone")], (ERROR, "gone")),
        ([Attached(HERE), BrokerDenied("other", "gone")], (LISTENING, None)),
        ([Attached(HERE), BrokerDenied("tag", "gone"), Delivered()], (ERROR, "gone")),
        ([Attached(HERE), BrokerDenied("tag", "gone"), BrokerConfirmed("tag")], (LISTENING, None)),
        ([Attached(HERE), BrokerDenied("tag", "gone"), BrokerConfirmed("other")], (ERROR, "gone")),
        ([Attached(HERE), BrokerDenied("tag", "gone"), Attached(HERE)], (LISTENING, None)),
        ([BrokerDenied("tag", "gone"), Attached(HERE)], (LISTENING, None)),
        ([Attached(HERE), StartFailed("boom"), BrokerDenied("tag", "gone")], (ERROR, "boom")),
        ([Attached(HERE), Unreadable("poison"), Delivered()], (ERROR, "poison")),
        ([Attached(HERE), Unreadable("poison"), Detached("cut"), Attaching(), Attached(HERE)], (ERROR, "poison")),
        ([Attached(HERE), Unreadable("poison"), Unreadable(None)], (LISTENING, None)),
        ([Attached(HERE), Unreadable("poison"), Stopped()], (DISCONNECTED, None)),
    ],
)
def test_the_row_after_a_story(events, row):
    assert after(*events).row == row


texts = st.text(min_size=1)
events = st.one_of(
    st.builds(Attaching),
    st.builds(AwaitingDag, texts),
    st.builds(Attached, st.builds(Registration, st.text(), st.floats())),
    st.builds(Delivered),
    st.builds(StartFailed, texts),
    st.builds(DagNotReady, texts),
    st.builds(Detached, st.none() | texts),
    st.builds(QueueMissing, texts),
    st.builds(Stopped),
    st.builds(BrokerDenied, st.text(), texts),
    st.builds(BrokerConfirmed, st.text()),
    st.builds(Unreadable, st.none() | texts),
)


@given(st.lists(events, max_size=60))
def test_what_holds_after_any_sequence(sequence):
    state = after(*sequence)

    if state.row.status is LISTENING:
        assert state.registration is not None
        assert state.row.error is None
        assert state.denial is None
        assert state.unreadable is None
    if state.denial:
        assert state.registration is not None
    if state.row.status is ERROR:
        assert state.row.error
    assert advance(state, Attaching()) == ConsumerState(unreadable=state.unreadable)
