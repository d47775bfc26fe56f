"""The connection form of Airflow's web pages: which fields an AMQP connection shows and what stands in them."""

from __future__ import annotations

import json
from typing import Any


def connection_form_widgets() -> dict[str, Any]:
    """Fields beyond the standard ones, stored in the extra; called by the web server only."""
    from flask_appbuilder.fieldwidgets import BS3TextFieldWidget  # noqa: PLC0415 - the web server has it, tasks need not
    from flask_babel import lazy_gettext  # noqa: PLC0415
    from wtforms import BooleanField, StringField  # noqa: PLC0415

    return {
        "ssl_enabled": BooleanField(lazy_gettext("SSL enabled"), default=False),
        "ca_certs": StringField(lazy_gettext("CA certificates (path)"), widget=BS3TextFieldWidget()),
        "certfile": StringField(lazy_gettext("Client certificate (path)"), widget=BS3TextFieldWidget()),
        "keyfile": StringField(lazy_gettext("Client key (path)"), widget=BS3TextFieldWidget()),
    }


def ui_field_behaviour() -> dict[str, Any]:
    """Labels and examples of the standard fields."""
    return {
        "hidden_fields": [],
        "relabeling": {"schema": "Virtual Host"},
        "placeholders": {
            "login": "guest",
            "password": "guest",
            "port": "5672",
            "host": "localhost",
            "schema": "/",
            "extra": json.dumps({"ssl_enabled": False}),
        },
    }
