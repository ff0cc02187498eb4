"""Drives real engines through the reference server, using only HTTP, as any client would."""
