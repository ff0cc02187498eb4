"""Evidence as lines of text: how a turn ended, its command, output and requests; or a call of the server."""

from collections.abc import Iterable, Iterator

from rich.text import Text

from turngate.contract.verdict import CallEvidence, Evidence, OutputExcerpt, RequestExcerpt, TurnEvidence
from turngate.sanitize import bounded, command_line, quoted_lines, visible
from turngate_probes.report.lines import INDENT, Line

WORD = 200
COMMAND = 1500
EXCERPT = 1600
MOST_REQUESTS = 4


def evidence_text(evidence: Iterable[Evidence]) -> str:
    """Write evidence as plain lines, as the text report does."""
    lines = [(depth, line.plain) for item in evidence for depth, line in evidence_lines(item)]
    least = min((depth for depth, _ in lines), default=0)
    return "\n".join(INDENT * (depth - least) + line for depth, line in lines)


def evidence_lines(evidence: Evidence) -> Iterator[Line]:
    """Describe a turn (how it ended, its command, streams and requests) or a call."""
    if isinstance(evidence, str):
        yield 2, Text(f"turn {visible(evidence)}")
        return
    if isinstance(evidence, CallEvidence):
        yield from _call(evidence)
        return
    code = "none" if evidence.exit_code is None else evidence.exit_code
    yield 2, Text(visible(f"turn {evidence.turn}: ended: {evidence.ended}, exit code {code}"))
    yield 3, Text("$ " + bounded(command_line(evidence.argv, WORD), COMMAND))
    yield from _stream("stdout", evidence.stdout)
    yield from _stream("stderr", evidence.stderr)
    yield from _requests(evidence)


def _call(call: CallEvidence) -> Iterator[Line]:
    yield 2, Text(visible(f"call {call.call}: {call.method} {call.path}, response {call.status}"))
    for label, text in (("request", call.sent), ("response", call.answer)):
        if text is not None:
            yield 3, Text(visible(f"{label}: {bounded(text, EXCERPT)}"))


def _stream(name: str, stream: OutputExcerpt) -> Iterator[Line]:
    yield 3, Text(f"{name}: {stream.bytes} bytes" if stream.bytes else f"{name}: empty")
    if stream.excerpt.strip():
        yield from ((4, Text(line)) for line in quoted_lines(bounded(stream.excerpt, EXCERPT)))


def _requests(evidence: TurnEvidence) -> Iterator[Line]:
    requests = evidence.requests
    if requests is None:
        return
    if not requests:
        yield 3, Text("the stub model backend received no request")
    for request in requests[:MOST_REQUESTS]:
        yield 3, Text(_request(request))
    more = (evidence.requests_seen or 0) - min(len(requests), MOST_REQUESTS)
    if more:
        yield 3, Text(f"and {more} more request{'s' if more > 1 else ''}")


def _request(request: RequestExcerpt) -> str:
    kind, model = request.protocol or "unknown path", request.model or "none"
    last_text = request.last_user_text
    parts = [
        f"request: {request.method} {bounded(request.path, WORD)} ({kind}, model {model})",
        f"nonces {' '.join(request.nonces) or 'none'}",
        f"last user text {'none' if last_text is None else repr(bounded(last_text, WORD))}",
        f"response: {request.reply}",
    ]
    return visible("; ".join(parts))
