"""Changes to recorded turns: how a turn ended, its session, and what the model backend received."""

import re

from msgspec.structs import replace

from tests.drift.transforms import edit_stream, word
from turngate.model import Ended
from turngate.process.sessions import Leftover
from turngate_probes.harness.observations import Observations, Turn

# how the turn ended, and its session


@word
def exit_with(turn: Turn, _seen: Observations, *, code: int) -> Turn:
    """End normally, with another exit code."""
    return replace(turn, exit_code=code, ended=Ended.EXIT)


@word
def never_end(turn: Turn, _seen: Observations) -> Turn:
    """Keep running until the deadline."""
    return replace(turn, exit_code=-15, ended=Ended.TIMEOUT)


@word
def linger(turn: Turn, _seen: Observations, *, seconds: float) -> Turn:
    """Keep running this many seconds after the terminal event, until the exit limit."""
    return replace(turn, exit_code=-15, ended=Ended.LINGERED, exit_seconds=seconds)


@word
def leave_running(turn: Turn, _seen: Observations, *, argv: list[str]) -> Turn:
    """Leave a process behind."""
    return replace(turn, leftovers=(Leftover(4711, tuple(argv), survived=False),))


@word
def be_session(turn: Turn, observed: Observations, *, id: str) -> Turn:  # noqa: A002 - the corpus's word
    """Print another session id instead of the turn's own."""
    own = (turn.session or turn.resumed or "").encode()

    def edit(data: bytes) -> bytes:
        return data.replace(own, id.encode())

    return edit_stream(edit_stream(turn, "stdout", edit), "stderr", edit)


@word
def run_like(turn: Turn, observed: Observations, *, turn_named: str) -> Turn:
    """Use another turn's output, ending and requests, with this turn's own nonce."""
    other = observed.turns[turn_named]
    requests = other.requests and tuple(
        replace(request, nonces=tuple(turn.nonce if n == other.nonce else n for n in request.nonces))
        for request in other.requests
    )
    return replace(
        turn,
        stdout=other.stdout,
        stderr=other.stderr,
        exit_code=other.exit_code,
        ended=other.ended,
        requests=requests if turn.requests is not None else None,
    )


# what the model backend received


@word
def forget(turn: Turn, _seen: Observations) -> Turn:
    """Send only this turn's prompt, without earlier turns."""
    return replace(
        turn, requests=tuple(replace(r, nonces=(turn.nonce,), user_texts=r.user_texts[-1:]) for r in turn.watched)
    )


@word
def unsend(turn: Turn, _seen: Observations) -> Turn:
    """Send no request to the model."""
    return replace(turn, requests=())


@word
def ask_model(turn: Turn, _seen: Observations, *, model: str) -> Turn:
    """Use another model."""
    return replace(turn, requests=tuple(replace(request, model=model) for request in turn.watched))


@word
def offer(turn: Turn, _seen: Observations, *, tools: list[str]) -> Turn:
    """Offer further tools to the model."""
    return replace(turn, requests=tuple(replace(request, tools=(*request.tools, *tools)) for request in turn.watched))


@word
def tell_model(turn: Turn, _seen: Observations, *, text: str) -> Turn:
    """Append a text to the body of each request."""
    return replace(
        turn, requests=tuple(replace(request, body=request.body + text.encode()) for request in turn.watched)
    )


@word
def mix_in(turn: Turn, observed: Observations, *, turn_named: str) -> Turn:
    """Send another turn's nonce as well, as if both turns shared a session."""
    foreign = observed.turns[turn_named].nonce
    return replace(
        turn, requests=tuple(replace(request, nonces=(foreign, *request.nonces)) for request in turn.watched)
    )


@word
def alter_prompt(turn: Turn, _seen: Observations, *, pattern: str, by: str) -> Turn:
    """Send the user's texts with every match of a regular expression replaced."""
    return replace(
        turn,
        requests=tuple(
            replace(
                request, user_texts=tuple(re.sub(pattern, by, text, flags=re.DOTALL) for text in request.user_texts)
            )
            for request in turn.watched
        ),
    )
