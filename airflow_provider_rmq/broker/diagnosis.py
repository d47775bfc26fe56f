"""What is wrong with a connection, for the person who presses "Test" on Airflow's connection page."""

from __future__ import annotations

from collections.abc import Callable

from airflow_provider_rmq.broker.pika_connection import open_connection
from airflow_provider_rmq.broker.refusals import explain_connection
from airflow_provider_rmq.broker.settings import ConnectionSettings
from airflow_provider_rmq.errors import ConfigurationError, describe


def diagnose(load_settings: Callable[[], ConnectionSettings]) -> tuple[bool, str]:
    """Try every endpoint once; true when one of them answers. Never raises."""
    try:
        settings = load_settings()
    except ConfigurationError as error:
        return False, str(error)
    except Exception as error:  # noqa: BLE001 - the page shows the text, whatever a secrets backend raises
        return False, describe(error)
    complaints = []
    for endpoint in settings.endpoints:
        try:
            open_connection(settings, endpoint).close()
        except ConfigurationError as error:
            return False, str(error)
        except Exception as error:  # noqa: BLE001 - as above
            complaints.append(explain_connection(error, str(endpoint), user=settings.login, vhost=settings.vhost))
        else:
            also = f" (but: {'; '.join(complaints)})" if complaints else ""
            return True, f"Connected to {endpoint}, vhost {settings.vhost!r}, as user {settings.login!r}{also}"
    return False, "; ".join(complaints)
