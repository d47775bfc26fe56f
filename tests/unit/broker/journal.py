"""An observer that writes down what it is told."""


class Journal:
    """Lines, in the order of what happened."""

    def __init__(self):
        self.lines = []

    def attaching(self):
        self.lines.append("attaching")

    def attached(self, tag, since):
        self.lines.append(f"attached {tag}")

    def detached(self, reason):
        self.lines.append(f"detached: {reason}")

    def queue_missing(self, reason):
        self.lines.append(f"missing: {reason}")

    def answered(self, event):
        self.lines.append(f"answered {event}")

    def unreadable(self, reason):
        self.lines.append(f"unreadable: {reason}")
