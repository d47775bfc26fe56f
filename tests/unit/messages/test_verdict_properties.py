"""What holds for every filter, message and policy."""

import logging

from factories import message
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_rmq.messages.bodies import json_document
from airflow_provider_rmq.messages.filters import MessageFilter
from airflow_provider_rmq.messages.judge import MessageJudge
from airflow_provider_rmq.messages.misses import FilterMissState
from airflow_provider_rmq.messages.settlement import FilterVerdict, Settlement, settlement_for

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
names = st.sampled_from(["a", "b", "body.a", "body.a.b", "body.b"])
bodies = st.sampled_from([b"", b"{", b'{"a": 1}', b'{"a": {"b": null}}', b'{"a": NaN}', b"\xff", b"[1]", b'{"b": 1}'])


#: So few that a header often has the value a condition asks for, and often has not.
few = st.sampled_from([1, 2, None])


@given(
    conditions=st.dictionaries(names, few, min_size=2, max_size=4) | st.dictionaries(names, values, max_size=4),
    headers=st.dictionaries(st.sampled_from(["a", "b"]), few) | st.dictionaries(st.sampled_from(["a", "c"]), values),
    body=bodies,
    order=st.randoms(use_true_random=False),
)
def test_key_order_never_changes_a_verdict(conditions, headers, body, order):
    shuffled_conditions, shuffled_headers = list(conditions.items()), list(headers.items())
    order.shuffle(shuffled_conditions)
    order.shuffle(shuffled_headers)

    straight = MessageFilter(conditions).evaluate_message(message(body, headers=headers))
    shuffled = MessageFilter(dict(shuffled_conditions)).evaluate_message(message(body, headers=dict(shuffled_headers)))

    assert shuffled == straight


@given(ack_unmatched=st.booleans())
def test_an_error_is_never_acknowledged(ack_unmatched):
    assert settlement_for(FilterVerdict.ERROR, ack_unmatched=ack_unmatched) is Settlement.REQUEUE


@given(body=st.binary(max_size=20), encoding=st.sampled_from([None, "gzip", "deflate"]), ack_unmatched=st.booleans())
def test_a_body_that_is_no_json_is_never_acknowledged_for_a_body_condition(body, encoding, ack_unmatched):
    misses = FilterMissState("q", logging.getLogger("test"), ack_unmatched)
    judge = MessageJudge(message_filter=MessageFilter({"body.a": 1}), misses=misses)

    judgement = judge.judge(message(body, content_encoding=encoding))

    try:
        json_document(body, encoding)
    except (ValueError, RecursionError):
        assert judgement.settlement is Settlement.REQUEUE


@given(verdict=st.sampled_from(FilterVerdict), ack_unmatched=st.booleans())
def test_only_a_match_or_an_unwanted_miss_is_acknowledged(verdict, ack_unmatched):
    acknowledged = settlement_for(verdict, ack_unmatched=ack_unmatched) is Settlement.ACK

    assert acknowledged == (verdict is FilterVerdict.MATCH or (verdict is FilterVerdict.MISS and ack_unmatched))
