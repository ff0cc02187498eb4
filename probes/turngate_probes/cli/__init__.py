"""The subcommands of the probes."""
