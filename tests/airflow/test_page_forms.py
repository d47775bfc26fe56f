"""Making and editing subscriptions as a browser does it: what is saved, what is refused, what is kept of the form."""

import html
import re

import pytest
from web_app import BASE, rows

pytestmark = pytest.mark.filterwarnings("ignore:Using the in-memory storage:UserWarning")


# --- create


def test_a_subscription_is_made_for_each_queue(admin, make_dag):
    make_dag("orders_dag")

    answer = admin.post(
        f"{BASE}/create",
        dag_id=" orders_dag ",
        queue_name=["orders", "", 'odd "<b>" name'],
        cooldown="60",
        filter_data='{"filter_headers": {"type": "order"}}',
        enabled="on",
    )

    assert answer.status_code == 302
    assert [
        (r.queue_name, r.dag_id, r.conn_id, r.cooldown, r.group_key, r.source, r.enabled, bool(r.ack_unmatched))
        for r in rows()
    ] == [
        (name, "orders_dag", "rmq_default", 60, "orders_dag", "ui", True, False)
        for name in ("orders", 'odd "<b>" name')
    ]
    assert rows()[0].filter_data == {"filter_headers": {"type": "order"}}
    page = admin.get(BASE).text
    assert "<b>" not in page
    assert 'odd "<b>" name' in html.unescape(page)


def test_what_is_wrong_stands_at_its_field_and_nothing_typed_is_lost(admin):
    answer = admin.post(
        f"{BASE}/create",
        dag_id="nowhere",
        queue_name=["a", "b"],
        conn_id="mine",
        cooldown="soon",
        filter_data="{no json",
        ack_unmatched="on",
    )
    page = html.unescape(answer.text)

    assert answer.status_code == 200
    assert all(f'id="{name}-error"' in page for name in ("dag_id", "cooldown", "filter_data"))
    assert all(f'value="{value}"' in page for value in ("nowhere", "a", "b", "mine", "soon"))
    assert "{no json</textarea>" in page
    assert re.search(r'id="ack_unmatched"[^>]*checked', page)
    assert not re.search(r'id="enabled"[^>]*checked', page)
    assert rows() == []


def test_a_queue_the_dag_already_has_is_said_at_the_field(admin, stored, make_dag):
    make_dag("d")
    stored()

    answer = admin.post(f"{BASE}/create", dag_id="d", queue_name=["new", "q"], enabled="on")

    assert answer.status_code == 200
    assert "already has a subscription to q" in answer.text
    assert len(rows()) == 1


def test_sharing_a_queue_is_said_after_the_save(admin, stored, make_dag):
    make_dag("other")
    stored(ack_unmatched=True)

    assert admin.post(f"{BASE}/create", dag_id="other", queue_name="q", enabled="on").status_code == 302

    told = admin.flashes()
    assert "saved: q" in told
    assert "queue q is also consumed for d" in told
    assert "deleted when it lands there" in told
    assert len(rows()) == 2


# --- edit


def test_an_edit_keeps_the_id_and_writes_the_rest(admin, stored, make_dag):
    make_dag("other")
    number = stored(cooldown=5, group_key="d", ack_unmatched=True)
    assert 'value="5"' in admin.get(f"{BASE}/{number}/edit").text

    answer = admin.post(f"{BASE}/{number}/edit", dag_id="other", queue_name="q2", cooldown="", conn_id="c")

    (row,) = rows()
    assert answer.status_code == 302
    assert (row.id, row.dag_id, row.queue_name, row.conn_id, row.cooldown, row.group_key) == (
        number, "other", "q2", "c", None, None,
    )  # fmt: skip
    assert (row.enabled, row.ack_unmatched) == (False, False)


def test_a_row_whose_dag_is_gone_can_still_be_edited(admin, stored):
    number = stored(dag_id="gone")

    assert admin.post(f"{BASE}/{number}/edit", dag_id="gone", queue_name="q", cooldown="7").status_code == 302
    assert rows()[0].cooldown == 7


def test_of_a_declared_subscription_only_the_switch_is_stored(admin, stored):
    number = stored(source="dag_file", filter_data={"filter_headers": {"a": 1}})
    assert "A DAG file declares this" in admin.get(f"{BASE}/{number}/edit").text

    admin.post(f"{BASE}/{number}/edit", dag_id="x", queue_name="y", cooldown="9", filter_data="{}")

    (row,) = rows()
    assert (row.dag_id, row.queue_name, row.cooldown, row.source, row.enabled) == ("d", "q", None, "dag_file", False)
    assert row.filter_data == {"filter_headers": {"a": 1}}


def test_a_group_is_rewritten_and_keys_that_stay_keep_their_ids(admin, stored, make_dag):
    make_dag("d")
    first = stored(queue_name="a", cooldown=5, group_key="d")
    stored(queue_name="b", cooldown=5, group_key="d", ack_unmatched=True)
    form = admin.get(f"{BASE}/group/d/edit").text
    assert 'id="rmq-mixed"' in form
    assert not re.search(r'id="ack_unmatched"[^>]*checked', form)

    answer = admin.post(
        f"{BASE}/group/d/edit", dag_id="d", queue_name=["a", "c", "e"], cooldown="8", ack_unmatched="on", enabled="on"
    )

    assert answer.status_code == 302
    assert rows()[0].id == first
    assert {row.queue_name for row in rows()} == {"a", "c", "e"}
    assert {(row.cooldown, row.ack_unmatched, row.enabled, row.group_key) for row in rows()} == {(8, True, True, "d")}


def test_a_rejected_group_form_keeps_a_box_that_was_just_cleared(admin, stored):
    stored(cooldown=5, group_key="d", ack_unmatched=True)

    page = admin.post(f"{BASE}/group/d/edit", dag_id="d", queue_name="q", cooldown="-1", enabled="on").text

    assert not re.search(r'id="ack_unmatched"[^>]*checked', page)
    assert rows()[0].ack_unmatched is True


def test_of_a_mixed_group_the_declared_rows_follow_the_switch_only(admin, stored):
    declared = stored(queue_name="declared", cooldown=5, group_key="d", source="dag_file")
    stored(queue_name="own", cooldown=5, group_key="d")

    admin.post(f"{BASE}/group/d/edit", dag_id="d", queue_name="own", cooldown="9")

    found = {row.queue_name: (row.id, row.cooldown, row.enabled) for row in rows()}
    assert found["declared"] == (declared, 5, False)
    assert found["own"][1:] == (9, False)


@pytest.mark.parametrize("path", ["999/edit", "group/nobody/edit"])
def test_what_is_gone_is_not_found(admin, path):
    assert admin.get(f"{BASE}/{path}").status_code == 404
