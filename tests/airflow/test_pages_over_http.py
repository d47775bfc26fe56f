"""The list as a browser meets it: Airflow's own web application, its roles and its CSRF protection."""

import pytest
from sqlalchemy import event
from web_app import BASE, rows

from airflow_provider_rmq.watcher.models import RMQConnStatus, RMQSubscription

pytestmark = pytest.mark.filterwarnings("ignore:Using the in-memory storage:UserWarning")


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
