"""Checks of the output streams."""

from turngate.contract.verdict import Finding
from turngate_probes.clauses.process import EVERYTHING
from turngate_probes.clauses.registry import check, fail_if, how_it_ended, passed, unmatched, unread, went_well
from turngate_probes.harness.observations import NotSeenError, Observations, Turn

GOOD = ("main/first", "main/again", "main/third")
MOST = 30


@check("stream.framing", "main")
def framing(seen: Observations) -> Finding:
    """The output of every successful turn followed its framing, and was not cut off."""
    turns = [turn for turn in _turns(seen) if went_well(turn)]
    if not turns:
        raise NotSeenError(f"no turn ended properly ({how_it_ended(seen.turn(GOOD[0]))})", by_engine=True)
    for turn in turns:
        fail_if(turn.reading.framing, "".join(turn.reading.framing[:1]), turn)
        fail_if(_holds_more_text(turn, seen), "the stream for the agent's text contains more than that text", turn)
    told = f"{len(turns)} turns, {sum(len(t.stdout) + len(t.stderr) for t in turns)} bytes"
    return passed(told + next(filter(None, map(unread, turns)), ""), *turns)


@check("stream.known-events", EVERYTHING, blames=("turn.terminal-event",))
def known_events(seen: Observations) -> Finding:
    """No turn printed a kind of record that the contract doesn't know."""
    turns = [turn for turn in seen.turns.values() if turn.reading.unknown]
    unknown = sorted({kind for turn in turns for kind in turn.reading.unknown})
    more = f" and {len(unknown) - MOST} more" if len(unknown) > MOST else ""
    path = next(filter(None, (unmatched(turn, "events") for turn in turns)), "")
    fail_if(unknown, f"unknown: {', '.join(unknown[:MOST])}{more}{path}", *_showing(turns))
    kinds = sorted({kind for turn in seen.turns.values() for kind in turn.reading.census})
    if not kinds:
        turn = seen.turn("main/first")
        raise NotSeenError(f"no turn printed a record ({how_it_ended(turn)})", by_engine=True)
    return passed("seen: " + ", ".join(kinds))


@check("turn.terminal-event", "main")
def terminal_event(seen: Observations) -> Finding:
    """The first turn, and each resumed one that did not fail, sent its prompt and ended with its terminal event."""
    first, *more = _turns(seen)
    # the clauses about resuming report a resumed turn that failed
    turns = [first, *(turn for turn in more if turn.exit_code == 0 and not turn.reading.failures)]
    for turn in turns:
        fail_if(not turn.reading.ended, f"no terminal event ({how_it_ended(turn)}){unmatched(turn, 'end')}", turn)
        fail_if(not went_well(turn), f"a turn with a terminal event ended with {how_it_ended(turn)}", turn)
        unasked = turn.requests is not None and not turn.sent()
        fail_if(unasked, f"the turn ended, but its prompt was not sent to the model ({how_it_ended(turn)})", turn)
    return passed(f"{len(turns)} turns", *turns)


def _showing(turns: list[Turn]) -> list[Turn]:
    """Return the turns that show a kind that no turn before them shows."""
    shown = set[str]()
    news: list[Turn] = []
    for turn in turns:
        if not shown.issuperset(turn.reading.unknown):
            news.append(turn)
            shown.update(turn.reading.unknown)
    return news


def _holds_more_text(turn: Turn, seen: Observations) -> bool:
    final = seen.contract.final
    plain = seen.contract.stream(final.stream).framing == "text"
    return plain and turn.scripted != "" and (turn.reading.final_text or "").strip() != turn.scripted.strip()


def _turns(seen: Observations) -> list[Turn]:
    turns = [seen.turns[name] for name in GOOD if name in seen.turns]
    return turns or [seen.turn(GOOD[0])]
