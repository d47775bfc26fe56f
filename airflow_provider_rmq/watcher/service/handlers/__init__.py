"""What a message means: message in, disposition out; one module for each kind of consumer."""
