"""The pages as a browser meets them: Airflow's own web application, its roles and its CSRF protection."""

import html
import re
from contextlib import closing

import pytest
from sqlalchemy import event, select
from web_app import make_app

from airflow_provider_rmq.watcher.models import RMQConnStatus, RMQSubscription, WatcherSession

pytestmark = pytest.mark.filterwarnings("ignore:Using the in-memory storage:UserWarning")

BASE = "/rmq-watcher/subscriptions"
ROLES = ("Admin", "Op", "User", "Viewer")


@pytest.fixture(scope="module")
def app(metadata_database):
    make_app()  # the first start finds no role Op yet
    app = make_app()
    with app.app_context():
        security = app.appbuilder.sm
        for role in ROLES:
            security.add_user(role, role, role, f"{role}@example.com", security.find_role(role), password=role)
    return app


class Person:
    """Somebody with a browser."""

    def __init__(self, app, role):
        self.client = app.test_client()
        self.get("/login/")
        answer = self.post("/login/", username=role, password=role)
        assert answer.status_code == 302, answer.text[-500:]

    def get(self, path, **query):
        answer = self.client.get(path, query_string=query, follow_redirects=True)
        if found := re.search(r'name="csrf_token"[^>]*value="([^"]+)"', answer.text):
            self.token = found[1]
        return answer

    def post(self, path, *, token=True, **fields):
        data = dict(fields, **({"csrf_token": self.token} if token else {}))
        return self.client.post(path, data=data)

    def flashes(self):
        """What the next page tells."""
        return html.unescape(self.get(BASE).text)


@pytest.fixture
def person(app, session):
    """Log somebody in by the role."""
    return lambda role: Person(app, role)


@pytest.fixture
def admin(person):
    admin = person("Admin")
    admin.get(f"{BASE}/create")
    return admin


@pytest.fixture
def stored(session):
    """Store subscriptions."""

    def store(**changes):
        fields = {"dag_id": "d", "queue_name": "q", "conn_id": "rmq_default", "source": "ui", "enabled": True}
        row = RMQSubscription(**(fields | changes))
        session.add(row)
        session.commit()
        return row.id

    return store


def rows():
    """All rows, as a new session sees them."""
    with closing(WatcherSession()) as session:
        found = session.scalars(select(RMQSubscription).order_by(RMQSubscription.id)).all()
        session.expunge_all()
        return found


# --- who may do what


def controls(page, number):
    """The controls that a page draws."""
    addresses = [f"{BASE}/create", *(f"{BASE}/{number}/{verb}" for verb in ("edit", "toggle", "delete"))]
    return [address for address in addresses if f'"{address}"' in page]


@pytest.mark.parametrize("role", ["Admin", "Op"])
def test_admin_and_op_see_the_page_with_every_control_and_its_menu(person, stored, role):
    number = stored()
    somebody = person(role)

    assert len(controls(somebody.get(BASE).text, number)) == 4
    assert 'href="/rmq-watcher/subscriptions' in somebody.get("/home").text


@pytest.mark.parametrize("role", ["User", "Viewer"])
def test_others_see_neither_page_nor_menu_and_every_address_refuses_them(person, stored, role):
    number = stored(group_key="d", cooldown=5)
    somebody = person(role)
    home = somebody.get("/home").text
    somebody.get("/login/")
    somebody.get("/users/userinfo/")

    assert "rmq-watcher" not in home
    assert "rmq-subscriptions" not in somebody.get(BASE).text
    for path in (f"{number}/toggle", f"{number}/delete", "group/d/toggle", "group/d/delete"):
        assert somebody.post(f"{BASE}/{path}").status_code in (302, 400, 403)
    for path in ("create", f"{number}/edit", "group/d/edit"):
        assert "rmq-form" not in somebody.get(f"{BASE}/{path}").text
    assert [(row.id, row.enabled) for row in rows()] == [(number, True)]


def test_what_a_role_may_not_do_is_not_drawn_and_refused(app, person, stored):
    number = stored()
    with app.app_context():
        security = app.appbuilder.sm
        role = security.add_role("Watching")
        for action, resource in (
            ("can_read", "RMQ Subscriptions"),
            ("can_read", "Website"),
            ("can_read", "My Profile"),
        ):
            security.add_permission_to_role(role, security.create_permission(action, resource))
        security.add_user("Watching", "W", "W", "w@example.com", role, password="Watching")
    somebody = person("Watching")
    page = somebody.get(BASE).text

    assert "rmq-subscriptions" in page
    assert controls(page, number) == []
    somebody.post(f"{BASE}/{number}/toggle")
    somebody.post(f"{BASE}/{number}/delete")
    assert [row.enabled for row in rows()] == [True]


def test_nobody_who_is_not_logged_in_sees_anything(app, stored):
    stored()
    answer = app.test_client().get(BASE)

    assert answer.status_code == 302
    assert "/login" in answer.location


def test_every_write_needs_its_token(admin, stored):
    number = stored()

    for path in ("create", f"{number}/edit", f"{number}/toggle", f"{number}/delete"):
        assert admin.post(f"{BASE}/{path}", token=False, dag_id="d", queue_name="x").status_code == 400
    assert [(row.queue_name, row.enabled) for row in rows()] == [("q", True)]


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


# --- toggle and delete


def test_a_switch_turns_over_and_a_declared_one_too(admin, stored):
    number = stored(source="dag_file")

    admin.post(f"{BASE}/{number}/toggle")
    assert [row.enabled for row in rows()] == [False]
    admin.post(f"{BASE}/{number}/toggle")
    assert [row.enabled for row in rows()] == [True]


def test_a_group_goes_off_when_all_of_it_is_on_else_on(admin, stored):
    stored(queue_name="a", group_key="d", enabled=False)
    stored(queue_name="b", group_key="d")

    admin.post(f"{BASE}/group/d/toggle")
    assert [row.enabled for row in rows()] == [True, True]
    admin.post(f"{BASE}/group/d/toggle")
    assert [row.enabled for row in rows()] == [False, False]


def test_only_rows_of_the_page_are_deleted(admin, stored):
    declared = stored(queue_name="declared", source="dag_file", group_key="d")
    own = stored(queue_name="own", group_key="d")
    page = admin.get(BASE).text
    assert f"/{declared}/delete" not in page
    assert "group/d/delete" not in page

    admin.post(f"{BASE}/{declared}/delete")
    admin.post(f"{BASE}/group/d/delete")
    assert {row.id for row in rows()} == {declared, own}
    assert "declared in a DAG file" in admin.flashes()

    admin.post(f"{BASE}/{own}/delete")
    assert [row.id for row in rows()] == [declared]


def test_a_click_on_what_is_gone_says_so(admin):
    admin.post(f"{BASE}/999/toggle")

    assert "no longer there" in admin.flashes()


# --- reading


@pytest.fixture
def count_queries():
    """Count what a call sends to the database."""
    from airflow import settings

    def count(call):
        seen = []

        def note(conn, cursor, statement, *rest):
            seen.append(statement)

        event.listen(settings.engine, "before_cursor_execute", note)
        try:
            call()
        finally:
            event.remove(settings.engine, "before_cursor_execute", note)
        return [text for text in seen if "rmq_watcher" in text or "dag" in text.lower()]

    return count


def test_the_number_of_queries_does_not_grow_with_the_rows_and_none_writes(admin, session, count_queries):
    def fill(count):
        session.bulk_save_objects(
            RMQSubscription(dag_id=f"dag_{n}", queue_name=f"q{n}", conn_id="c", source="ui", enabled=True)
            for n in range(count, count + 40)
        )
        session.commit()

    fill(0)
    admin.get(BASE)
    few = count_queries(lambda: admin.get(BASE))
    for start in range(40, 500, 40):
        fill(start)
    many = count_queries(lambda: admin.get(BASE))

    assert len(many) == len(few) <= 20
    assert not [text for text in many if text.lstrip().upper().startswith(("UPDATE RMQ", "INSERT INTO RMQ", "DELETE"))]


def test_a_table_that_is_behind_is_a_notice_and_the_other_block_is_shown(admin, session, stored):
    from sqlalchemy import text

    stored()
    session.add(RMQConnStatus(conn_id="the_connection", status="connected", consumer_count=1))
    session.commit()
    session.execute(text("ALTER TABLE rmq_watcher_subscriptions RENAME COLUMN absent_cycles TO other"))
    session.commit()
    try:
        page = admin.get(BASE).text
    finally:
        session.execute(text("ALTER TABLE rmq_watcher_subscriptions RENAME COLUMN other TO absent_cycles"))
        session.commit()

    assert 'id="rmq-subscriptions-notice"' in page
    assert 'id="rmq-create"' not in page
    assert "the_connection" in page
