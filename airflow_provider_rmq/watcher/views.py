"""The Subscriptions page for Airflow 2: a thin Flask-AppBuilder adapter over `web`.

Takes requests apart, asks `web.page_data` or `web.actions`, draws. Decides nothing but where to go next.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from datetime import datetime, timezone
from typing import Any

from flask import Blueprint, abort, flash, redirect, request, url_for
from flask_appbuilder import BaseView, expose
from flask_appbuilder.security.decorators import has_access

from airflow_provider_rmq import compat
from airflow_provider_rmq.watcher.models import WatcherSession
from airflow_provider_rmq.watcher.rows.editing import row_by_id, rows_of_group
from airflow_provider_rmq.watcher.rows.page_rows import SubscriptionRow
from airflow_provider_rmq.watcher.rows.schema import migrate_at_load
from airflow_provider_rmq.watcher.subscription_form import SubscriptionForm
from airflow_provider_rmq.watcher.tunables import Timing, read_flag, read_timing, stale_after
from airflow_provider_rmq.watcher.web import actions
from airflow_provider_rmq.watcher.web.access import MENU_CATEGORY, MENU_ENTRY, RESOURCE, settle_op_access
from airflow_provider_rmq.watcher.web.actions import ActionResult
from airflow_provider_rmq.watcher.web.form_page import FormPage, empty_form, form_of_group, form_of_row
from airflow_provider_rmq.watcher.web.page_data import load_page
from airflow_provider_rmq.watcher.web.subscriptions_page import Allowed

#: Address of the page below Airflow's own.
ROUTE_BASE = "/rmq-watcher"
_LIST = "RMQWatcherView.subscriptions"


class RMQWatcherView(BaseView):
    """Serves the pages; roles hold their permissions on them by the name below."""

    route_base = ROUTE_BASE
    default_view = "subscriptions"
    class_permission_name = RESOURCE
    base_permissions = ["can_read", "can_create", "can_edit", "can_delete"]  # noqa: RUF012 - Flask-AppBuilder reads it
    method_permission_name = {  # noqa: RUF012 - the same
        "subscriptions": "read",
        "create": "create",
        "edit": "edit",
        "edit_group": "edit",
        "toggle": "edit",
        "toggle_group": "edit",
        "delete": "delete",
        "delete_group": "delete",
    }

    @expose("/subscriptions")
    @has_access
    def subscriptions(self) -> Any:
        """List what is consumed and how it goes; never writes."""
        with closing(WatcherSession()) as session:
            page = load_page(
                session,
                datetime.now(timezone.utc).replace(tzinfo=None),
                stale_after=_stale_after(),
                allowed=self._allowed(),
                search=request.args.get("search", "").strip(),
                page=request.args.get("page", 1, type=int),
            )
        return self.render_template("rmq_watcher/subscriptions.html", page=page)

    @expose("/subscriptions/create", methods=["GET", "POST"])
    @has_access
    def create(self) -> Any:
        """Draw the empty form, or store what was submitted."""
        page = empty_form()
        if request.method == "GET":
            return self._draw(page)
        form = _submitted()
        with closing(WatcherSession()) as session:
            result = actions.create(session, form, _known_dags(session))
        return self._after(result, page, form)

    @expose("/subscriptions/<int:subscription_id>/edit", methods=["GET", "POST"])
    @has_access
    def edit(self, subscription_id: int) -> Any:
        """Draw the form of one subscription, or store what was submitted."""
        with closing(WatcherSession()) as session:
            row = row_by_id(session, subscription_id)
            if row is None:
                abort(404)
            page = form_of_row(row)
            if request.method == "GET":
                return self._draw(page)
            form = _submitted()
            result = actions.edit(session, row, form, _known_dags(session))
        return self._after(result, page, form)

    @expose("/subscriptions/group/<path:group_key>/edit", methods=["GET", "POST"])
    @has_access
    def edit_group(self, group_key: str) -> Any:
        """Draw the form of a group, or store what was submitted for all its subscriptions."""
        with closing(WatcherSession()) as session:
            rows = _group(session, group_key)
            page = form_of_group(rows)
            if request.method == "GET":
                return self._draw(page)
            form = _submitted()
            result = actions.edit_group(session, rows, form, _known_dags(session))
        return self._after(result, page, form)

    @expose("/subscriptions/<int:subscription_id>/toggle", methods=["POST"])
    @has_access
    def toggle(self, subscription_id: int) -> Any:
        """Switch one subscription on or off."""
        with closing(WatcherSession()) as session:
            result = actions.toggle(session, _rows(session, subscription_id))
        return _back_to_list(result)

    @expose("/subscriptions/group/<path:group_key>/toggle", methods=["POST"])
    @has_access
    def toggle_group(self, group_key: str) -> Any:
        """Switch a group on or off."""
        with closing(WatcherSession()) as session:
            result = actions.toggle(session, _group(session, group_key))
        return _back_to_list(result)

    @expose("/subscriptions/<int:subscription_id>/delete", methods=["POST"])
    @has_access
    def delete(self, subscription_id: int) -> Any:
        """Delete one subscription of the UI."""
        with closing(WatcherSession()) as session:
            result = actions.delete(session, _rows(session, subscription_id))
        return _back_to_list(result)

    @expose("/subscriptions/group/<path:group_key>/delete", methods=["POST"])
    @has_access
    def delete_group(self, group_key: str) -> Any:
        """Delete a group of the UI."""
        with closing(WatcherSession()) as session:
            result = actions.delete(session, _group(session, group_key))
        return _back_to_list(result)

    def _allowed(self) -> Allowed:
        may = self.appbuilder.sm.has_access
        return Allowed(
            create=may("can_create", RESOURCE), edit=may("can_edit", RESOURCE), delete=may("can_delete", RESOURCE)
        )

    def _draw(self, page: FormPage) -> Any:
        return self.render_template("rmq_watcher/subscription_form.html", page=page)

    def _after(self, result: ActionResult, page: FormPage, form: SubscriptionForm) -> Any:
        """Back to the list, or the form again with what was submitted and what is wrong with it."""
        if result.saved or result.problem:
            return _back_to_list(result)
        flash(f"nothing is saved yet, please look at: {', '.join(result.errors)}", "error")
        return self._draw(page.redrawn(form, result.errors))


def _submitted() -> SubscriptionForm:
    return SubscriptionForm.submitted(request.form.getlist)


def _known_dags(session: Any) -> actions.KnownDags:
    def known(dag_ids: Iterable[str]) -> frozenset[str]:
        gone = (compat.DagState.MISSING, compat.DagState.INACTIVE)
        return frozenset(dag_id for dag_id, state in compat.dag_states(session, dag_ids).items() if state not in gone)

    return known


def _rows(session: Any, subscription_id: int) -> list[SubscriptionRow]:
    row = row_by_id(session, subscription_id)
    return [] if row is None else [row]


def _group(session: Any, group_key: str) -> list[SubscriptionRow]:
    rows = rows_of_group(session, group_key)
    if not rows:
        abort(404)
    return rows


def _back_to_list(result: ActionResult) -> Any:
    if result.problem:
        flash(result.problem, "error")
    if result.done:
        flash(result.done, "success")
    for warning in result.warnings:
        flash(warning, "warning")
    return redirect(url_for(_LIST))


def _stale_after() -> float:
    timing = read_timing(compat.read_variable, Timing())
    return stale_after(timing.interval, timing.budget)


def appbuilder_views() -> list[dict[str, Any]]:
    """The menu entry, in the shape of Airflow's plugin interface."""
    return [{"name": MENU_ENTRY, "category": MENU_CATEGORY, "view": RMQWatcherView()}]


def flask_blueprints() -> list[Any]:
    """Brings the templates along; when the web server registers it, brings tables and permissions in order."""
    blueprint = Blueprint("rmq_watcher", __name__, template_folder="web/templates")
    blueprint.record_once(_prepare_web_server)
    return [blueprint]


def _prepare_web_server(state: Any) -> None:
    """Only where the page is served: `airflow users` and its like build an application too, without this switch."""
    if not compat.is_web_ui(state.app):
        return
    migrate_at_load(WatcherSession)
    settle_op_access(state.app.appbuilder.sm, granted=read_flag("rmq_watcher", "grant_op_access", default=True))
