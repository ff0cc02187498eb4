"""Chooses who speaks a transport."""

from collections.abc import Callable
from importlib import import_module
from typing import TypeAlias, cast

from turngate.contract import EngineContract
from turngate_reference.resident.speech import Speaker, SpeechError, Surroundings

MakeSpeaker: TypeAlias = Callable[[Surroundings], Speaker]

_SPEAKERS = {
    "acp": ("agent_client", "AgentClient"),
    "app_server": ("app_server", "AppServer"),
    "stream_json": ("printed", "StreamJson"),
}


def speaker_for(contract: EngineContract) -> MakeSpeaker:
    """Give what makes the speaker of a contract's transport; slow at first use. SpeechError if it names none."""
    if contract.resident.transport not in _SPEAKERS:
        raise SpeechError(f"{contract.engine} can't be kept over several turns")
    module, name = _SPEAKERS[contract.resident.transport]
    return cast(MakeSpeaker, getattr(import_module(f"turngate_reference.resident.{module}"), name))
