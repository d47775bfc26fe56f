"""Pages as plain values: from rows to what a page shows, without a web framework."""
