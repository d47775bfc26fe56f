"""Airflow's own web application, as the web server builds it."""


def make_app():
    """Build it; Airflow keeps only the newest one working, because its auth manager holds it in a global."""
    from airflow.www import app as airflow_app

    return airflow_app.create_app(config={"AUTH_RATE_LIMITED": False}, testing=True)
