"""The trigger behind a deferred sensor."""
