"""Drives real engines through the reference server, which is met over HTTP alone, as any client would."""
