"""The `qos` argument is checked where it is given."""

import pytest

from airflow_provider_rmq.broker.blocking import Qos


def test_missing_keys_mean_no_limit():
    assert Qos.of({}) == Qos(prefetch_size=0, prefetch_count=0, global_qos=False)
    assert Qos.of(None) is None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"prefetch": 5}, "prefetch_size, prefetch_count, global_qos, not prefetch"),
        ({"prefetch_count": -1}, "prefetch_count.*-1"),
        ({"prefetch_count": "5"}, "prefetch_count.*'5'"),
        ({"global_qos": "yes"}, "global_qos.*'yes'"),
        ("5", "dict or None"),
    ],
)
def test_a_wrong_key_or_value_is_refused_with_what_is_allowed(given, words):
    with pytest.raises(ValueError, match=words):
        Qos.of(given)
