"""Airflow's own web application, people who use it, and what they leave in the database."""

import html
import re
from contextlib import closing

from sqlalchemy import select

from airflow_provider_rmq.watcher.models import RMQSubscription, WatcherSession

BASE = "/rmq-watcher/subscriptions"
ROLES = ("Admin", "Op", "User", "Viewer")


def make_app():
    """Build it; Airflow keeps only the newest one working, because its auth manager holds it in a global."""
    from airflow.www import app as airflow_app

    return airflow_app.create_app(config={"AUTH_RATE_LIMITED": False}, testing=True)


def make_app_with_people():
    """Build it as on its second start, because the first finds no role Op yet; a person for each role."""
    make_app()
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


def rows():
    """All rows, as a new session sees them."""
    with closing(WatcherSession()) as session:
        found = session.scalars(select(RMQSubscription).order_by(RMQSubscription.id)).all()
        session.expunge_all()
        return found
