"""What is passed to an engine: arguments, auto-approve flags, environment."""
