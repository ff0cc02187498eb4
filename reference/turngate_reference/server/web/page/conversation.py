"""Reads a run as a conversation: what the agent said and asked, and what its user answered."""

import re
from itertools import groupby
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from turngate import Outcome
from turngate.strict_json import DECODER
from turngate.turn.envelope import Envelope, read_envelope
from turngate_reference.engine.attempt import contract_for
from turngate_reference.server.orchestrator.live_run import MAX_TEXTS
from turngate_reference.server.store import runs
from turngate_reference.server.store.database import Store
from turngate_reference.server.store.events import QuestionEvent, ReplyEvent, StoredEvent, TextEvent
from turngate_reference.server.store.runs import Run, StoredQuestion, StoredTurn

PAGE = 25
MAX_HEADING, MAX_BEGINNING = 140, 60
MAX_MESSAGES = 40  # of a turn
_EMPTY_FENCE = re.compile(r"```\w*\s*```\s*$")
_MAX_OBJECTS = 100


class Message(Struct, frozen=True):
    """One message; `question` is what is asked or answered, and `text` the agent's text or the user's answer.

    A `result` is the final data of its turn, after which the run was continued. `is_ours` marks the question how a run
    that has ended should go on, which no agent asked.
    """

    id: str
    kind: Literal["text", "json", "question", "answer", "result"]
    at: str
    text: str
    question: StoredQuestion | None = None
    is_ours: bool = False

    @property
    def is_approval(self) -> bool:
        """Whether it is about something that the engine may do only with the user's approval."""
        return self.question is not None and self.question.request_id is not None


class TurnMessages(Struct, frozen=True):
    """A turn with its messages; `left_out` says that earlier ones are not among them."""

    turn: StoredTurn
    messages: list[Message]
    left_out: bool


class Conversation(Struct, frozen=True):
    """Some turns of a run in order; `earlier` and `later` are the last turns of the neighbouring pages (None: none)."""

    turns: list[TurnMessages]
    earlier: int | None
    later: int | None


def conversation(store: Store, run: Run, up_to: int | None) -> Conversation:
    """Read the `PAGE` turns of a run that end with the turn `up_to` (None: the latest), without its open question."""
    last = min(up_to or run.turn_index, run.turn_index)
    turns = runs.turns(store, run.run_id, last, PAGE)
    earlier = turns[0].turn_index - 1 if turns else 0
    later = min(last + PAGE, run.turn_index)
    return Conversation(
        [_messages(store, run, turn) for turn in turns], earlier or None, later if last < run.turn_index else None
    )


def _messages(store: Store, run: Run, turn: StoredTurn) -> TurnMessages:
    in_pieces = _says_in_pieces(run)
    limit = MAX_TEXTS if in_pieces else MAX_MESSAGES
    events = runs.messages(store, run.run_id, turn.turn_index, limit + 1)
    left_out = len(events) > limit
    events = _without_returned(events[-limit:])
    if in_pieces:
        events = _joined(events)
        left_out, events = left_out or len(events) > MAX_MESSAGES, events[-MAX_MESSAGES:]
    questions = {asked.interaction_id: asked for asked in runs.questions(store, run.run_id, turn.turn_index)}
    found = (_message(run, event, questions) for event in events)
    messages = [message for message in found if message]
    asked = [i for i, said in enumerate(messages) if said.kind == "question" and not said.is_approval]
    # a turn asks once; what is asked after that is how the run should go on
    for i in asked[turn.outcome == Outcome.ASK_USER :]:
        messages[i] = replace(messages[i], is_ours=True)
    if turn.final_data is not None:
        # the question how the run should go on came after the result
        at = asked[0] if asked else len(messages)
        messages.insert(at, Message(f"result-{turn.turn_index}", "result", turn.ended_at or "", ""))
    return TurnMessages(turn, messages, left_out)


def _says_in_pieces(run: Run) -> bool:
    """Whether the texts of a run may be pieces, which ACP doesn't always tell apart from messages."""
    return run.is_sticky and contract_for(run.engine, run.engine_version).sticky.transport == "acp"


def _without_returned(events: list[StoredEvent]) -> list[StoredEvent]:
    """Leave out replies that were returned: only the last reply to a question was sent."""
    sent = {event.data.interaction_id: event.id for event in events if isinstance(event.data, ReplyEvent)}
    return [e for e in events if not isinstance(e.data, ReplyEvent) or sent[e.data.interaction_id] == e.id]


def _joined(events: list[StoredEvent]) -> list[StoredEvent]:
    """Join texts that nothing separates."""
    joined: list[StoredEvent] = []
    for _, group in groupby(events, key=lambda event: isinstance(event.data, TextEvent)):
        first, *rest = group
        if isinstance(said := first.data, TextEvent):
            text = "".join(event.data.text for event in (first, *rest) if isinstance(event.data, TextEvent))
            joined.append(replace(first, data=replace(said, text=text)))
        else:
            joined += [first, *rest]
    return joined


def _message(run: Run, event: StoredEvent, questions: dict[str, StoredQuestion]) -> Message | None:
    """Return the message of an event; None for the open question, and for a text that is shown in another way."""
    if isinstance(event.data, TextEvent):
        text = without_envelope(event.data.text)
        is_result = isinstance(run.final_data, dict) and run.final_data == {"text": event.data.text}
        if not text or is_result:
            return None
        return Message(f"said-{event.id}", "json" if text[0] in "{[" else "text", event.at, text)
    if not isinstance(event.data, QuestionEvent | ReplyEvent):
        return None
    asked = questions.get(event.data.interaction_id)
    if asked is None or asked.interaction_id == run.pending_interaction_id:
        return None
    if isinstance(event.data, ReplyEvent):
        return Message(f"said-{event.id}", "answer", event.at, asked.response or "", asked)
    return Message(f"said-{event.id}", "question", event.at, asked.question.prompt, asked)


def without_envelope(text: str) -> str:
    """Return what an agent said beside a valid envelope, which the page shows as a question or a result.

    A text with an invalid envelope is returned as it is.
    """
    stripped = text.strip()
    if not isinstance(read_envelope(text), Envelope):
        return stripped
    at = -1
    for _ in range(_MAX_OBJECTS):
        at = stripped.find("{", at + 1)
        if at < 0:
            break
        try:
            value, end = DECODER.raw_decode(stripped, at)
        except (ValueError, RecursionError):
            continue
        if "outcome" in value:
            around = f"{stripped[:at].rstrip()}\n\n{stripped[end:].lstrip()}"
            return _EMPTY_FENCE.sub("", around.strip()).strip()
        at = end - 1
    return stripped


def heading(text: str, limit: int = MAX_HEADING) -> str:
    """Return the first line of a task or a question, of at most `limit` characters, cut after a word."""
    line = text.strip().partition("\n")[0].strip()
    return line if len(line) <= limit else f"{line[:limit].rpartition(' ')[0] or line[:limit]} …"


def titled(prompt: str) -> tuple[str, str]:
    """Return the title of a task and what is shown below it: all of it if the title is only how it begins."""
    first, _, rest = prompt.strip().partition("\n")
    if len(first.strip()) <= MAX_HEADING:
        return first.strip(), rest.strip()
    return heading(prompt, MAX_BEGINNING), prompt.strip()
