"""A switch that grants something is read towards withholding."""

import logging

import pytest

from airflow_provider_rmq import compat
from airflow_provider_rmq.watcher.tunables import read_flag


@pytest.mark.parametrize("text", ["1", "t", "TRUE", "y", "yes", " on ", "True # as it was"])
def test_these_spellings_hold_it_open(monkeypatch, text):
    monkeypatch.setattr(compat, "config_option", lambda section, option: text)

    assert read_flag("rmq_watcher", "grant_op_access", default=False)


@pytest.mark.parametrize("text", ["0", "f", "False", "n", "no", "OFF", "false#x"])
def test_these_spellings_close_it(monkeypatch, text, caplog):
    monkeypatch.setattr(compat, "config_option", lambda section, option: text)

    assert not read_flag("rmq_watcher", "grant_op_access", default=True)
    assert not caplog.records


@pytest.mark.parametrize("text", ["", "maybe", "2", "truee", "{}"])
def test_a_text_nobody_can_read_closes_it_and_is_named(monkeypatch, text, caplog):
    monkeypatch.setattr(compat, "config_option", lambda section, option: text)

    with caplog.at_level(logging.WARNING):
        assert not read_flag("rmq_watcher", "grant_op_access", default=True)

    assert repr(text) in caplog.text


@pytest.mark.parametrize("default", [True, False])
def test_an_option_nobody_set_is_its_default(monkeypatch, default):
    monkeypatch.setattr(compat, "config_option", lambda section, option: None)

    assert read_flag("rmq_watcher", "grant_op_access", default=default) is default
