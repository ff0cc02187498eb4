"""The turns of a process for several turns, each as a call of its own, so that the rules for calls judge them, too."""

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from turngate.turn.records import value_at
from turngate_probes.conform.calls import CallEnd, EngineCall
from turngate_probes.conform.message_forms import Form, Message, Slots, messages, read, strings

_GIVES_UP = re.compile(r"(?i)cancel|interrupt|abort")
_KIND = ("method", "type", "request")


class Prompt(Struct, frozen=True):
    """What starts a turn: the place of its message among those sent, its session, and what stands in its slots."""

    place: int
    handle: str
    slots: Slots


def turns_of(call: EngineCall) -> Iterator[EngineCall]:
    """Yield the turns of a call, which is one itself unless it is a process for several turns.

    Such a turn starts when its prompt has come. Its handle is its session, which resumes the one that the arguments
    name, or of which it is a fork. It ends with its process, and with exit code 0 if it is known to have succeeded.
    """
    started, forms = call.started, call.started.forms
    if started.kind != "process":
        yield call
        return
    travelled = list(messages(call.stdin))
    sent, printed = [message for _, message in travelled], [message for _, message in messages(call.stdout)]
    told = [slots for message in printed if forms.told and (slots := read(forms.told, message)) and slots.handle]
    unnamed = started.resumed or started.chosen or f"process {call.number}"
    forked = dict(_forks(sent, printed))
    prompts = list[Prompt]()
    for place, message in enumerate(sent):
        if slots := next(filter(None, (read(form, message) for form in forms.prompts)), None):
            named = (one.handle for one in told if one.handle and one.id in (None, message.get("id")))
            handle = slots.handle or next(named, unnamed)
            prompts.append(Prompt(place, handle, replace(slots, handle=handle, id=message.get("id"))))
    for number, prompt in enumerate(prompts):
        at, handle = call.when(travelled[prompt.place][0]), prompt.handle
        later = next((other.place for other in prompts[number + 1 :] if other.handle == handle), None)
        succeeded = (
            _has_ended(forms.ended, printed, prompt, prompts[:number]) if forms.ended else later is not None
        ) and not any(map(_gives_up, sent[prompt.place : later]))
        yield replace(
            call,
            started=replace(
                started,
                at=at,
                prompt=prompt.slots.text,
                resumed=started.resumed or forked.get(handle),
                newest_session="" if number else started.newest_session,
            ),
            ended=CallEnd(handle, 0 if succeeded else 1, call.ended.at if call.ended else at),
            handle=handle,
        )


def _forks(sent: Sequence[Message], printed: Sequence[Message]) -> Iterator[tuple[str, str]]:
    """Yield the strings in the answers to requests for a fork, one of which is its session, each with its origin."""
    for message in sent:
        if str(message.get("method")).endswith("/fork"):
            origin = value_at(message, "params.threadId") or value_at(message, "params.sessionId")
            answers = (answer for answer in printed if answer.get("id") == message.get("id"))
            yield from ((text, origin) for text in strings([*answers]))


def _has_ended(form: Form, printed: Sequence[Message], prompt: Prompt, earlier: Sequence[Prompt]) -> bool:
    """Whether a prompt was not refused, and its turn's end was printed; turns end in the order of their prompts."""
    asked = prompt.slots.id
    if asked is not None and any(one.get("id") == asked and "error" in one for one in printed):
        return False
    ends = (read(form, message) for message in printed)
    own = [slots for slots in ends if slots and slots.is_in(prompt.slots)]
    return len(own) > sum(all(slots.is_in(other.slots) for slots in own) for other in earlier)


def _gives_up(message: Message) -> bool:
    """Whether a message gives up the turn that runs."""
    return any(_GIVES_UP.search(str(message.get(name))) for name in _KIND)
