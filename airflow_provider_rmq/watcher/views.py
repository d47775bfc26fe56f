"""The Subscriptions page for Airflow 2: a thin Flask-AppBuilder adapter over `web.subscriptions_page`."""

from __future__ import annotations

from contextlib import closing
from datetime import datetime, timezone
from typing import Any

from flask import Blueprint
from flask_appbuilder import BaseView, expose
from flask_appbuilder.security.decorators import has_access

from airflow_provider_rmq.watcher.models import WatcherSession
from airflow_provider_rmq.watcher.web.subscriptions_page import load_page

#: Address of the page below Airflow's own.
ROUTE_BASE = "/rmq-watcher"


class RMQWatcherView(BaseView):
    """Serves the page; roles hold their permissions on it by the name below."""

    route_base = ROUTE_BASE
    default_view = "subscriptions"
    class_permission_name = "RMQ Subscriptions"
    base_permissions = ["can_read"]  # noqa: RUF012 - Flask-AppBuilder reads class attributes
    method_permission_name = {"subscriptions": "read"}  # noqa: RUF012

    @expose("/subscriptions")
    @has_access
    def subscriptions(self) -> Any:
        """List what is consumed and how it goes; never writes."""
        with closing(WatcherSession()) as session:
            page = load_page(session, datetime.now(timezone.utc).replace(tzinfo=None))
        return self.render_template("rmq_watcher/subscriptions.html", page=page)


def appbuilder_views() -> list[dict[str, Any]]:
    """The menu entry, in the shape of Airflow's plugin interface."""
    return [{"name": "Subscriptions", "category": "RabbitMQ", "view": RMQWatcherView()}]


def flask_blueprints() -> list[Any]:
    """Brings the templates along."""
    return [Blueprint("rmq_watcher", __name__, template_folder="web/templates")]
