"""The event loop of the watcher's worker process: scan, reconcile, consume, report."""
