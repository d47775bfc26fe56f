"""Which role the web server gives the page to at its start, and which applications leave roles alone."""

import logging

import pytest
from web_app import make_app

from airflow_provider_rmq.watcher.web.access import PERMISSIONS, settle_op_access

pytestmark = pytest.mark.filterwarnings("ignore:Using the in-memory storage:UserWarning")


def op_permissions(app):
    with app.app_context():
        role = app.appbuilder.sm.find_role("Op")
        app.appbuilder.get_session.refresh(role)
        held = {(permission.action.name, permission.resource.name) for permission in role.permissions}
    return held & set(PERMISSIONS)


@pytest.mark.parametrize("text", ["false", "nonsense"])
def test_the_switch_takes_the_page_from_op_and_gives_it_back(app, monkeypatch, text):
    assert op_permissions(app) == set(PERMISSIONS)

    monkeypatch.setenv("AIRFLOW__RMQ_WATCHER__GRANT_OP_ACCESS", text)
    assert op_permissions(make_app()) == set()

    monkeypatch.delenv("AIRFLOW__RMQ_WATCHER__GRANT_OP_ACCESS")
    assert op_permissions(make_app()) == set(PERMISSIONS)


def test_a_command_that_builds_an_application_leaves_the_role_alone(app, monkeypatch):
    from airflow.providers.fab.auth_manager.cli_commands import utils

    monkeypatch.setenv("AIRFLOW__RMQ_WATCHER__GRANT_OP_ACCESS", "false")
    with utils.get_application_builder() as appbuilder:
        assert appbuilder.sm.find_role("Op") is not None

    assert op_permissions(app) == set(PERMISSIONS)


def test_an_auth_manager_without_roles_is_a_warning(caplog):
    with caplog.at_level(logging.WARNING):
        settle_op_access(object(), granted=True)

    assert "holds no roles" in caplog.text
