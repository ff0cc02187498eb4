"""A model backend on loopback that answers as scripted and journals every request.

It speaks the wire protocols of the model vendors well enough for the real CLIs, and needs no model. It is also the
proxy of a probed CLI: it rejects and journals everything that would leave loopback.
"""

from turngate_probes.stub_model.answers import NONCE, Egress, Exchange, new_nonce
from turngate_probes.stub_model.protocol import Cut, Hang, Refuse, Reply, StubRule, Summary, Text, ToolCall
from turngate_probes.stub_model.server import StubBackend, refused_port

__all__ = [
    "NONCE",
    "Cut",
    "Egress",
    "Exchange",
    "Hang",
    "Refuse",
    "Reply",
    "StubBackend",
    "StubRule",
    "Summary",
    "Text",
    "ToolCall",
    "new_nonce",
    "refused_port",
]
