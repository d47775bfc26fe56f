"""RabbitMQ provider for Apache Airflow: what Airflow asks of a provider package, and nothing else.

`hooks`, `operators`, `sensors` and `triggers` are for DAG authors; `watcher` starts DAGs when messages arrive.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any

try:
    __version__ = version("airflow-provider-rmq")
except PackageNotFoundError:  # a copy in the plugins folder has no metadata
    __version__ = "unknown"

_INTEGRATION = "RabbitMQ"


def get_provider_info() -> dict[str, Any]:
    """Provider metadata in the shape of Airflow's `provider_info.schema.json`."""
    return {
        "package-name": "airflow-provider-rmq",
        "name": _INTEGRATION,
        "description": "Start DAGs when RabbitMQ messages arrive; hooks, operators, sensors and triggers for RabbitMQ.",
        "versions": [__version__],
        "integrations": [
            {
                "integration-name": _INTEGRATION,
                "external-doc-url": "https://www.rabbitmq.com/docs",
                "tags": ["service"],
            }
        ],
        "operators": [
            {
                "integration-name": _INTEGRATION,
                "python-modules": [
                    "airflow_provider_rmq.operators.rmq_publish",
                    "airflow_provider_rmq.operators.rmq_consume",
                    "airflow_provider_rmq.operators.rmq_management",
                ],
            }
        ],
        "sensors": [{"integration-name": _INTEGRATION, "python-modules": ["airflow_provider_rmq.sensors.rmq"]}],
        "hooks": [{"integration-name": _INTEGRATION, "python-modules": ["airflow_provider_rmq.hooks.rmq"]}],
        "triggers": [{"integration-name": _INTEGRATION, "python-modules": ["airflow_provider_rmq.triggers.rmq"]}],
        "connection-types": [
            {"hook-class-name": "airflow_provider_rmq.hooks.rmq.RMQHook", "connection-type": "amqp"},
        ],
        "plugins": [
            {"name": "rmq_watcher", "plugin-class": "airflow_provider_rmq.watcher.plugin.RMQWatcherPlugin"},
        ],
        "config": {
            "rmq_watcher": {
                "description": "The watcher, which starts DAGs when RabbitMQ messages arrive, and its page.",
                "options": {
                    "max_conf_body_bytes": {
                        "description": "Bytes of a message's body that reach the conf of the DAG run it starts. A "
                        'longer body is cut, and `conf["truncated"]` tells its size. Read when the watcher starts.',
                        "version_added": "3.0.0",
                        "type": "integer",
                        "example": None,
                        "default": "262144",
                    },
                    "grant_op_access": {
                        "description": "Whether the Op role holds the permissions of the Subscriptions page. Read when "
                        "the web server starts; any text that is not a yes counts as no.",
                        "version_added": "2.4.0",
                        "type": "boolean",
                        "example": None,
                        "default": "True",
                    },
                },
            },
        },
    }
