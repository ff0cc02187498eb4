"""An orchestrator that keeps one process for all turns: kept.py PROTOCOL [MISTAKE].

It speaks `acp`, `app_server`, `mcp` or `stream_json`, whose sessions work where the process starts.
Without a mistake it conforms, also if it `starts-elsewhere`, if it `reconnects` (ends the process after the first turn,
and loads the session in another one), or if it uses `several-sessions` of one process. A mistake is one that clients of
these protocols make: to ignore session ids, to accept a turn without text, to take the end of the output for the end of
a turn, to decode each piece of the output alone, to name another directory, when it opens a session or
(`turns-elsewhere`) in a turn, to let the engine act by what it sends (`lets-act`), or by a file of the user that
nothing it sends outranks, to change what the user says (`strips`), to send a reply twice, in the same process or
(`resends`) in one that takes its place, to repeat the first prompt with a reply, to give each turn a session of its own
(`forgets`), to withhold a tool from the first process alone (`drops-options`), to load a session in another process
while the first one still runs (`opens-twice`), or to miss text that follows the response to a prompt
(`stops-at-the-response`). One with `two-turns` conforms, too, as far as it goes.
"""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

PROTOCOL, MISTAKE, *_ = (*sys.argv[1:], "")
ARGV = {
    "acp": ["gemini", "--acp", "--skip-trust"],
    "app_server": ["codex", "app-server"],
    "mcp": ["codex", "mcp-server"],
    "stream_json": [
        "claude",
        "--print",
        "--input-format",
        "stream-json",
        "--output-format",
        "stream-json",
        "--verbose",
    ],
}[PROTOCOL]
if (PROTOCOL, MISTAKE) == ("stream_json", "lets-act"):
    ARGV += ["--permission-mode", "acceptEdits"]
WORK = os.environ["TURNGATE_WORKSPACE"]
HOME = os.environ["HOME"]
STARTED_IN, OPENED_IN = HOME if MISTAKE == "starts-elsewhere" else WORK, HOME if MISTAKE == "opens-elsewhere" else WORK
TURN_IN = {"cwd": HOME} if MISTAKE == "turns-elsewhere" else {}
ASKS = {
    "lets-act": {"sandbox": "workspace-write"},
    "leaves-it-to-a-file": {},
}.get(MISTAKE, {"approvalPolicy": "untrusted", "sandbox": "read-only"})
ASIDE = [{"type": "text", "text": "What is a good title for a conversation?"}]
Message = dict[str, Any]
LATE = 0.5  # seconds without a message
NOTHING: Message = {}
Talk = Generator[str, str, None]


class TurnError(Exception):
    """The conversation failed."""


class Agent:
    """The process, and its messages."""

    def __init__(self, session: str = "") -> None:
        pipe, argv = subprocess.PIPE, [*ARGV, *(["--resume", session] if session and PROTOCOL == "stream_json" else [])]
        argv += ["--disallowedTools", "Bash"] if MISTAKE == "drops-options" and not session else []
        self.process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, cwd=STARTED_IN, start_new_session=True)
        self.messages, self.last, self.waits, self.session = self._read(), 0, True, session

    def end(self, number: int = signal.SIGKILL) -> None:
        """End the process, with all that it started."""
        os.killpg(self.process.pid, number)
        self.process.wait()

    def send(self, method: str, params: Message) -> int:
        """Send a request and return its number."""
        self.last += 1
        self.write({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params})
        return self.last

    def write(self, message: Message) -> None:
        """Send a message."""
        assert self.process.stdin
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def call(self, method: str, params: Message) -> Message:
        """Send a request and return its result."""
        return self.result(self.send(method, params), [])

    def result(self, number: int, notified: list[Message]) -> Message:
        """Return the result of a request; what comes before is added to `notified`."""
        for message in self.messages:
            if message.get("id") == number and "method" not in message:
                if "error" in message:
                    raise TurnError(message["error"]["message"])
                return dict(message["result"])
            notified.append(message)
        if MISTAKE == "accepts-eof" and notified:
            return {"stopReason": "end_turn"}
        raise TurnError("the engine ended")

    def rest(self) -> Iterator[Message]:
        """Yield what comes late, until nothing has come for a moment."""
        self.waits = False
        yield from iter(lambda: next(self.messages, NOTHING), NOTHING)
        self.waits = True

    def _read(self) -> Iterator[Message]:
        rest: bytes | str = "" if MISTAKE == "decodes-pieces" else b""
        assert self.process.stdout
        pipe = self.process.stdout.fileno()
        while True:
            while not self.waits and not select.select([pipe], [], [], LATE)[0]:
                yield NOTHING
            if not (data := os.read(pipe, 65536)):
                return
            if isinstance(rest, str):
                *lines, rest = (rest + data.decode("utf-8", "replace")).split("\n")
                yield from map(json.loads, filter(str.strip, lines))
            else:
                *parts, rest = (rest + data).split(b"\n")
                yield from parsed(parts)


def parsed(lines: list[bytes]) -> Iterator[Message]:
    """Yield the lines that are objects; a banner is none."""
    for line in lines:
        try:
            message = json.loads(line.removeprefix(b"\xef\xbb\xbf"))
        except ValueError:
            continue
        if isinstance(message, dict):
            yield message


def acp(agent: Agent) -> Talk:
    """Yield the answer of each prompt that is sent in."""
    agent.call("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
    opened: Message = {"cwd": OPENED_IN, "mcpServers": []}
    if agent.session:
        agent.call("session/load", {**opened, "sessionId": agent.session})
    else:
        agent.session = agent.call("session/new", opened).get("sessionId", "")
    if not (session := agent.session):
        raise TurnError("no session id")
    if MISTAKE == "several-sessions":
        other = agent.call("session/new", opened)["sessionId"]
        agent.call("session/prompt", {"sessionId": other, "prompt": ASIDE})
    if MISTAKE == "lets-act":
        agent.call("session/set_mode", {"sessionId": session, "modeId": "autoEdit"})
    answer = ""
    while True:
        prompt, updates = (yield answer), list[Message]()
        number = agent.send("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": prompt}]})
        if agent.result(number, updates)["stopReason"] != "end_turn":
            raise TurnError("the turn did not end")
        updates += () if MISTAKE == "stops-at-the-response" else agent.rest()
        told = [update["params"] for update in updates if update.get("method") == "session/update"]
        if MISTAKE != "ignores-ids" and any(params.get("sessionId") != session for params in told):
            raise TurnError("another session")
        said = [params["update"] for params in told if params["update"]["sessionUpdate"] == "agent_message_chunk"]
        answer = "".join(update["content"]["text"] for update in said)


def thread_of(agent: Agent) -> str:
    """Open a thread; return its id."""
    agent.call("initialize", {"clientInfo": {"name": "kept", "version": "1"}})
    opened = {"cwd": OPENED_IN, **ASKS}
    if agent.session:
        agent.call("thread/resume", {**opened, "threadId": agent.session})
    else:
        agent.session = agent.call("thread/start", opened)["thread"].get("id", "")
    if not (thread := agent.session):
        raise TurnError("no thread id")
    if MISTAKE == "several-sessions":
        other = agent.call("thread/start", opened)["thread"]["id"]
        agent.call("turn/start", {"threadId": other, "input": ASIDE})
        next(message for message in agent.messages if message.get("method") == "turn/completed")
    return thread


def app_server(agent: Agent) -> Talk:
    """Yield the answer of each prompt that is sent in."""
    thread, answer = thread_of(agent), ""
    while True:
        prompt = yield answer
        agent.call("turn/start", {"threadId": thread, "input": [{"type": "text", "text": prompt}], **TURN_IN})
        answer = ""
        for message in agent.messages:
            params = message.get("params", {})
            if MISTAKE != "ignores-ids" and params.get("threadId", thread) != thread:
                raise TurnError("another thread")
            if message.get("method") == "item/completed" and params["item"]["type"] == "agentMessage":
                answer = params["item"]["text"]
            if message.get("method") == "turn/completed":
                if params["turn"]["status"] != "completed":
                    raise TurnError(str(params["turn"]["error"]))
                break
        else:
            if MISTAKE != "accepts-eof":
                raise TurnError("the engine ended")


def mcp(agent: Agent) -> Talk:
    """Yield the answer of each prompt that is sent in."""
    agent.call(
        "initialize",
        {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "kept", "version": "1"}},
    )
    agent.write({"jsonrpc": "2.0", "method": "notifications/initialized", "params": {}})
    opened, answer = {"cwd": OPENED_IN, "sandbox": ASKS["sandbox"]}, ""
    while True:
        prompt = yield answer
        name, given = ("codex-reply", {"threadId": agent.session}) if agent.session else ("codex", opened)
        number = agent.send("tools/call", {"name": name, "arguments": {"prompt": prompt, **given}})
        result = agent.result(number, [])
        told = result["structuredContent"]
        if result.get("isError"):
            raise TurnError(told["content"])
        if not (thread := told.get("threadId")) or agent.session not in ("", thread):
            raise TurnError("no thread id, or another one")
        agent.session, answer = thread, told["content"]


def stream_json(agent: Agent) -> Talk:
    """Yield the answer of each prompt that is sent in."""
    answer, session = "", agent.session or None
    while True:
        prompt = yield answer
        agent.write({"type": "user", "message": {"role": "user", "content": prompt}})
        answer = ""
        for message in agent.messages:
            if MISTAKE == "accepts-eof" and message.get("type") == "assistant":
                answer = "".join(block.get("text", "") for block in message["message"]["content"])
            if message.get("type") not in ("system", "result"):
                continue
            if (handle := message.get("session_id")) is None:
                raise TurnError("no session id")
            if MISTAKE != "ignores-ids" and session not in (None, handle):
                raise TurnError("another session")
            session = agent.session = handle
            if message["type"] == "result":
                if message["is_error"]:
                    raise TurnError(message.get("result", message["subtype"]))
                answer = message["result"]
                break
        else:
            if MISTAKE != "accepts-eof":
                raise TurnError("the engine ended")


def talk_with(agent: Agent) -> Talk:
    """Return a conversation that is ready for its first prompt."""
    talk = {"acp": acp, "app_server": app_server, "mcp": mcp, "stream_json": stream_json}[PROTOCOL](agent)
    next(talk)
    return talk


def went_on(agents: list[Agent], talk: Talk, said: list[str]) -> tuple[Talk, str]:
    """Send what the user said last; return the conversation, which may go on in another process, and the answer."""
    text = said[-1].lstrip("-") if MISTAKE == "strips" else said[-1]
    if len(said) > 1:
        if MISTAKE in ("sends-twice", "resends"):
            talk.send(text)
        if MISTAKE in ("reconnects", "resends", "forgets", "drops-options"):
            agents[-1].end(signal.SIGTERM)
        if MISTAKE in ("reconnects", "resends", "forgets", "drops-options", "opens-twice"):
            agents.append(Agent("" if MISTAKE == "forgets" else agents[-1].session))
            talk = talk_with(agents[-1])
        if MISTAKE == "repeats-the-prompt":
            text = f"{said[0]}\n\n{text}"
    return talk, talk.send(text)


def main() -> int:
    """Have the conversation, print its answer, and return the exit code."""
    env, answer, said = os.environ, "", list[str]()
    if MISTAKE == "leaves-it-to-a-file":
        settings = Path(HOME, ".codex/config.toml")
        settings.parent.mkdir(exist_ok=True)  # several conversations share the home
        new = settings.with_name(str(os.getpid()))
        new.write_text('sandbox_mode = "danger-full-access"\n')
        new.replace(settings)
    agents = [Agent()]

    def expired(*_: object) -> None:
        raise TurnError("the deadline has passed")

    signal.signal(signal.SIGALRM, expired)
    try:
        signal.setitimer(signal.ITIMER_REAL, float(env["TURNGATE_DEADLINE_SEC"]))
        talk = talk_with(agents[0])
        names = ("TURNGATE_PROMPT_FILE", "TURNGATE_REPLY_FILE", "TURNGATE_REPLY_2_FILE")
        for name in names[:2] if MISTAKE == "two-turns" else names:
            if name in env:
                signal.setitimer(signal.ITIMER_REAL, float(env["TURNGATE_DEADLINE_SEC"]))
                said.append(Path(env[name]).read_text("utf-8"))
                talk, answer = went_on(agents, talk, said)
    except (TurnError, BrokenPipeError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for agent in agents:
            if agent.process.returncode is None:
                agent.end()
    sys.stdout.write(answer)
    return 0 if answer.strip() or MISTAKE == "accepts-silence" else 1


sys.exit(main())
