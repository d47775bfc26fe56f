"""Who may open the Subscriptions page: gives the Op role its permissions, or takes them, at each web server start.

Admin holds every permission by Airflow itself; other roles are given theirs by hand. The switch is a configuration
option and not an Airflow Variable, because the Op role may edit Variables and would give itself the page back.
"""

from __future__ import annotations

import logging
from typing import Any, Protocol

from airflow_provider_rmq.errors import describe

log = logging.getLogger(__name__)

#: The permissions' resource; roles of earlier releases hold it by this name.
RESOURCE = "RMQ Subscriptions"
#: Name of the menu entry and of the category above it.
MENU_ENTRY, MENU_CATEGORY = "Subscriptions", "RabbitMQ"
#: Everything the page asks for, as (action, resource).
PERMISSIONS = (
    *((action, RESOURCE) for action in ("can_read", "can_create", "can_edit", "can_delete")),
    ("menu_access", MENU_ENTRY),
    ("menu_access", MENU_CATEGORY),
)
ROLE = "Op"


class SecurityManager(Protocol):
    """The part of Flask-AppBuilder's security manager that holds roles."""

    def find_role(self, name: str) -> Any:
        """The role, None when it is not there."""
        ...

    def create_permission(self, action_name: str, resource_name: str) -> Any:
        """The permission, made when it is not there."""
        ...

    def get_permission(self, action_name: str, resource_name: str) -> Any:
        """The permission, None when it is not there."""
        ...

    def add_permission_to_role(self, role: Any, permission: Any) -> None:
        """Give; nothing happens when the role has it."""
        ...

    def remove_permission_from_role(self, role: Any, permission: Any) -> None:
        """Take; nothing happens when the role does not have it."""
        ...


def settle_op_access(security: Any, *, granted: bool) -> None:
    """Bring the Op role to what the switch says; never raises, since a web server must start without this page too.

    Args:
        security: The application's security manager; only Flask-AppBuilder's holds roles.
        granted: Whether the role has the page.
    """
    if not all(hasattr(security, name) for name in ("find_role", "create_permission", "add_permission_to_role")):
        log.warning(
            "the auth manager %s holds no roles, so access to the Subscriptions page cannot be given to %s",
            type(security).__name__,
            ROLE,
        )
        return
    try:
        _settle(security, granted=granted)
    except Exception as error:  # noqa: BLE001 - the metadata database may raise anything
        log.warning("the permissions of role %s on the Subscriptions page are as before: %s", ROLE, describe(error))


def _settle(security: SecurityManager, *, granted: bool) -> None:
    role = security.find_role(ROLE)
    if role is None:
        log.warning(
            "there is no role %s yet, so nobody but Admin has the Subscriptions page; Airflow makes the role during "
            "its first start, and the next start gives it the page",
            ROLE,
        )
        return
    for action, resource in PERMISSIONS:
        if granted:
            security.add_permission_to_role(role, security.create_permission(action, resource))
        elif (permission := security.get_permission(action, resource)) is not None:
            security.remove_permission_from_role(role, permission)
    log.info("role %s %s the Subscriptions page", ROLE, "has" if granted else "does not have")
