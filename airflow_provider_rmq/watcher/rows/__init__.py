"""From declared subscriptions to database rows; with `models` the only users of SQLAlchemy."""
