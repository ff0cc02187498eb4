"""A sticky engine that does what each prompt says, on the transport named by its first argument.

Of a prompt with a line `do: …` only that line counts, and the prompt is recorded in `prompts` next to the executable,
one JSON text per line.

`FAKE_FLAWS` lists its faults, separated by blanks: `banner`, `deaf-to-mode`, `widened`,
`no-session`, `config-allows`, `no-options` (modes are set, and reported, without them), `mute` (they are not reported),
`contrary` (another one is reported), `answers` (the answer to a request says what is in force), `one-model` (no request
sets another model), `many-choices` and `long-choice` (of requests for permission), `blank-options` (the choices have no
names).
"""

import json
import os
import re
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

Message = dict[str, Any]

FLAWS = os.environ.get("FAKE_FLAWS", "").split()
SESSION = "01a20100-15f2-7892-83a8-645205010f39"
OPTIONS = [
    {"optionId": "a", "name": "Always", "kind": "allow_always"},
    {"optionId": "y", "name": "Yes", "kind": "allow_once"},
    {"optionId": "n", "name": "No", "kind": "reject_once"},
]
if "blank-options" in FLAWS:
    OPTIONS = [option | {"name": " "} for option in OPTIONS]
# JSON that readers should reject
ODD = {"nested": "[" * 900 + "]" * 900, "digits": "1" * 401}


def put(message: Message) -> None:
    """Print one message, with JSON of `ODD` in place of the texts that name it."""
    line = json.dumps(message)
    for name, odd in ODD.items():
        line = line.replace(f'"{name}"', odd)
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def get() -> Any:
    """Return the next message; exit at the end of input."""
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)


class Engine:
    """Common code of both JSON-RPC transports: the prompts and their results."""

    def __init__(self) -> None:
        self.turns = 0
        self.asked = 0
        self.late: list[str] = []

    def play(self, prompt: str) -> str | None:
        """Do what the prompt says; return the text of the answer, or None for a failure."""
        self.turns += 1
        if orders := re.findall(r"^do: (.*)$", prompt, re.MULTILINE):
            with Path(sys.argv[0]).with_name("prompts").open("a") as file:
                file.write(json.dumps(prompt) + "\n")
            (prompt,) = orders
        word, _, rest = prompt.partition(" ")
        told = self.act(word, rest)
        if word in ("ask", "unknown"):
            return told
        answers = {"say": rest, "abandon": rest, "recall": " ".join(self.late), "fail": None}
        answers |= dict.fromkeys(("allow", "twice"), rest.replace("DECISION", told or ""))
        return answers.get(word, f"turn {self.turns} of {os.getpid()}")

    def act(self, word: str, rest: str) -> str | None:
        """Ask for permission, or do what an engine should not; return the client's answers."""
        match word:
            case "allow" | "twice":
                return "+".join(self.ask(1 if word == "allow" else 2))
            case "ask":
                return " ".join(self.ask(int(rest or 1)))
            case "unknown":
                return json.dumps(self.request("files/grant_everything", {}))
            case "hang":
                Path(sys.argv[0]).with_name("meeting").write_text("hangs\n")
                get()
            case "nested" | "digits":
                self.send_ask(word)
                get()
            case "flood":
                sys.stdout.write("x" * (9 * 2**20) + "\n")
            case "abandon":
                self.send_ask("write 0")
            case "exit" | "close" | "deaf":
                self.die(word, rest)
            case "drift":
                self.drift()
        return None

    def die(self, word: str, code: str) -> None:
        """Exit, or stop writing or reading."""
        if word == "exit":
            sys.stderr.write("\x1b]0;fake\x07\x1b[1;31mout of ideas\x1b[0m\x1b[K\a\n")
            sys.exit(int(code))
        if word == "close":
            sys.stdout.flush()
            os.close(1)
        else:
            os.close(0)
            self.say("can't hear you")
            self.end("can't hear you")
        time.sleep(60)

    def ask(self, count: int) -> list[str]:
        """Send that many permission requests at once, and return the answers in their order."""
        ids: list[int | str] = [self.send_ask(f"write {number}") for number in range(count)]
        answers: dict[int | str, str] = {}
        while len(answers) < count:
            message = get()
            answers[self.id_of(message)] = self.read_answer(message)
        return [answers[request_id] for request_id in ids]

    def hear(self, message: Any) -> None:
        """Handle one message of the client; an answer to an earlier turn's request is stored."""
        if isinstance(message, dict) and (("method" not in message and "id" in message) or "response" in message):
            self.late.append(self.read_answer(message))
            return
        self.answer(message)

    def answer(self, message: Any) -> None:
        """Respond to one message of the client."""
        raise NotImplementedError

    def say(self, text: str) -> None:
        """Send a piece of the text, if the protocol sends pieces."""

    def end(self, text: str | None) -> None:
        """End the turn, if the protocol needs more than an answer."""

    def drift(self) -> None:
        """Leave the mode, if the protocol has modes."""

    def send_ask(self, title: str) -> int | str:
        """Send a permission request; return its id."""
        raise NotImplementedError

    def read_answer(self, message: Message) -> str:
        """Return the decision in an answer."""
        raise NotImplementedError

    def id_of(self, message: Message) -> int | str:
        """Return the id of the request that a message answers."""
        return message.get("id") or str(message["response"]["request_id"])

    def request(self, method: str, params: Message) -> Any:
        """Send a request and return the whole response."""
        self.asked += 1
        put({"jsonrpc": "2.0", "id": f"r{self.asked}", "method": method, "params": params})
        return get()

    def send(self, method: str, params: Message) -> int:
        """Send a request and return its id."""
        self.asked += 1
        put({"jsonrpc": "2.0", "id": self.asked, "method": method, "params": params})
        return self.asked


class FakeAcp(Engine):
    """The Agent Client Protocol."""

    mode = "yolo"

    def answer(self, message: Any) -> None:
        """Respond to one request of the client."""
        params = message.get("params") or {}
        result: Message = {}
        match message["method"]:
            case "initialize":
                result = {"protocolVersion": 1}
            case "session/new":
                result = {} if "no-session" in FLAWS else self.session()
            case "session/set_mode":
                self.set_mode(params["modeId"])
                result = {"success": True, "currentModeId": self.mode} if "answers" in FLAWS else {}
            case "session/set_model" if "one-model" not in FLAWS:
                result = {"currentModelId": params["modelId"]} if "answers" in FLAWS else {}
            case "session/set_config_option":
                self.set_mode(params["value"])
                result = {"configOptions": [{"id": "m", "category": "mode", "currentValue": self.mode}]}
            case "session/prompt":
                said = self.play(params["prompt"][0]["text"])
                if said is None:
                    put({"jsonrpc": "2.0", "id": message["id"], "error": {"code": 401, "message": "key refused"}})
                    return
                self.say(said[:3])
                self.say(said[3:])
                result = {"stopReason": "end_turn"}
            case "session/set_model":
                put({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "unknown"}})
                return
        put({"jsonrpc": "2.0", "id": message["id"], "result": result})

    def session(self) -> Message:
        """Return the description of the session."""
        modes = {"currentModeId": self.mode, "availableModes": [{"id": "default"}, {"id": "yolo"}]}
        option = {"id": "m", "category": "mode", "currentValue": self.mode}
        return {"sessionId": "s-1", "modes": modes} | ({} if "no-options" in FLAWS else {"configOptions": [option]})

    def set_mode(self, mode: str) -> None:
        """Set the mode, and report it."""
        self.mode = self.mode if "deaf-to-mode" in FLAWS else mode
        if "no-options" in FLAWS and not {"mute", "answers"} & set(FLAWS):
            self.update({"sessionUpdate": "current_mode_update", "currentModeId": self.mode})
        if "contrary" in FLAWS:
            self.drift()

    def say(self, text: str) -> None:
        """Send a piece of the text."""
        self.update({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}})

    def drift(self) -> None:
        """Leave the mode."""
        self.update({"sessionUpdate": "current_mode_update", "currentModeId": "yolo"})

    def update(self, update: Message) -> None:
        """Send an update of the session."""
        put({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s-1", "update": update}})

    def send_ask(self, title: str) -> int | str:
        """Ask for permission."""
        call = {"toolCallId": title, "title": title, "kind": "edit", "rawInput": {"path": "x"}}
        more = [f"o{number}" for number in range(99)] if "many-choices" in FLAWS else []
        more += ["x" * 1001] if "long-choice" in FLAWS else []
        options = [*OPTIONS, *({"optionId": name, "name": name, "kind": "allow_once"} for name in more)]
        return self.send("session/request_permission", {"sessionId": "s-1", "toolCall": call, "options": options})

    def read_answer(self, message: Message) -> str:
        """Return the selected option, or how the request was refused."""
        outcome = message["result"]["outcome"]
        return str(outcome.get("optionId") or outcome["outcome"])


class FakeAppServer(Engine):
    """The app server's protocol."""

    session = SESSION

    def answer(self, message: Any) -> None:
        """Respond to one request of the client."""
        params = message.get("params") or {}
        if "id" not in message:
            return
        result: Message = {}
        if message["method"] in ("thread/start", "thread/resume"):
            self.session = self.thread(params)
            policy = "never" if "widened" in FLAWS else params["approvalPolicy"]
            sandbox = {"read-only": "readOnly", "workspace-write": "workspaceWrite"}[params["sandbox"]]
            result = {"thread": {"id": self.session}, "approvalPolicy": policy, "approvalsReviewer": "user"}
            result["sandbox"] = {"type": sandbox}
        if message["method"] == "turn/start" and "news" in FLAWS:
            put({"method": "account/rateLimits/updated", "params": {"rateLimits": {}}})
        put({"id": message["id"], "result": result})
        if message["method"] == "turn/start":
            self.end(self.play(params["input"][0]["text"]))

    def thread(self, params: Message) -> str:
        """Return the id of the thread to continue, or of a new one."""
        return str(params.get("threadId", SESSION))

    def end(self, text: str | None) -> None:
        """Report the text, and the end of the turn."""
        if text is None:
            turn = {"status": "failed", "error": {"message": "key refused"}}
        else:
            item = {"type": "agentMessage", "id": str(self.turns), "text": text}
            self.tell("item/completed", {"item": item})
            turn = {"status": "completed"}
        self.tell("turn/completed", {"turn": turn})

    def tell(self, method: str, params: Message) -> None:
        """Send a notification of the thread."""
        put({"method": method, "params": {"threadId": self.session, **params}})

    def send_ask(self, title: str) -> int | str:
        """Ask for permission."""
        params = {"threadId": self.session, "command": title, "availableDecisions": ["accept", "acceptForSession"]}
        return self.send("item/commandExecution/requestApproval", params)

    def read_answer(self, message: Message) -> str:
        """Return the decision, or that there is none."""
        return str(message["result"]["decision"]) if "result" in message else "error"


class FakeStreamJson(Engine):
    """Messages and control requests as JSON objects."""

    def answer(self, message: Any) -> None:
        """Respond to a prompt or a control request."""
        if message["type"] == "control_request":
            mode = "yolo" if "deaf-to-mode" in FLAWS else message["request"]["mode"]
            done = {"subtype": "success", "request_id": message["request_id"], "response": {"mode": mode}}
            put({"type": "control_response", "response": done})
            return
        put({"type": "system", "subtype": "init", "session_id": SESSION})
        said = self.play(message["message"]["content"])
        ended = {"subtype": "success", "is_error": said is None, "result": said or "key refused"}
        put({"type": "result", "session_id": SESSION, **ended})

    def send_ask(self, title: str) -> int | str:
        """Ask for permission."""
        return self.control({"subtype": "can_use_tool", "tool_name": title, "input": {"path": "x"}})

    def read_answer(self, message: Message) -> str:
        """Return the behaviour."""
        return str(message["response"]["response"]["behavior"])

    def request(self, method: str, params: Message) -> Any:
        """Send a control request and return the whole response."""
        self.control({"subtype": method, **params})
        return get()["response"]

    def control(self, request: Message) -> str:
        """Send a control request and return its id."""
        self.asked += 1
        put({"type": "control_request", "request_id": str(self.asked), "request": request})
        return str(self.asked)


class FakeJsonCommands(Engine):
    """Commands as JSON objects, with the members that the contract of pi names."""

    session = SESSION

    def hear(self, message: Any) -> None:
        """Handle one message of the client; an answer to an earlier turn's question is stored."""
        if message["type"] == "extension_ui_response":
            self.late.append(self.read_answer(message))
        else:
            self.answer(message)

    def answer(self, message: Any) -> None:
        """Respond to one command."""
        reply = {"id": message["id"], "type": "response", "success": True} if "id" in message else {}
        if message["type"] == "get_state":
            put({**reply, "data": {} if "no-session" in FLAWS else {"sessionId": self.session}})
        elif "deaf" in FLAWS:
            put({"type": "response", "success": False, "error": "busy"})
        else:
            put(reply)
            self.end(self.play(message["message"]))

    def end(self, text: str | None) -> None:
        """Report the text, and the end of the turn."""
        if text is None:
            last = {"stopReason": "error", "errorMessage": "key refused"}
            put({"type": "agent_end", "willRetry": False, "messages": [{"role": "user"}, last]})
        else:
            put({"type": "message_update", "assistantMessageEvent": {"type": "text_end", "content": text}})
            put({"type": "turn_end", "message": {"stopReason": "stop"}})
        put({"type": "agent_settled"})

    def drift(self) -> None:
        """Switch to another session."""
        self.session = "01a20100-15f2-7892-83a8-645205010f40"

    def send_ask(self, title: str) -> int | str:
        """Ask for permission."""
        return self.question("confirm", {"title": title, "message": "x"})

    def read_answer(self, message: Message) -> str:
        """Return the decision, or that the question was not answered."""
        return "cancelled" if "confirmed" not in message else "allow" if message["confirmed"] else "deny"

    def request(self, method: str, params: Message) -> Any:
        """Send a question of another kind and return the whole answer."""
        self.question(method, params)
        return get()

    def question(self, method: str, params: Message) -> str:
        """Send a question and return its id."""
        self.asked += 1
        put({"type": "extension_ui_request", "id": f"q{self.asked}", "method": method, **params})
        return f"q{self.asked}"


SPEAKERS: dict[str, type[Engine]] = {
    "acp": FakeAcp,
    "app_server": FakeAppServer,
    "app-server": FakeAppServer,
    "stream_json": FakeStreamJson,
    "json_commands": FakeJsonCommands,
}


def main() -> None:
    """Serve until the input ends."""
    transport, *rest = sys.argv[1:]
    if transport == "launcher":
        import subprocess  # noqa: PLC0415 - rarely needed, and slow to import

        # the engine inherits the pipes, as behind many launchers
        sys.exit(subprocess.call([sys.argv[0], *rest]))
    if rest[:1] == ["config"]:
        action = "allow" if "config-allows" in FLAWS else "ask"
        put({"permission": {"*": "ask", "bash": {"git *": action}}, "other": "allow"})
        return
    if "banner" in FLAWS:
        sys.stdout.write("Welcome! {not json\n[]\n7\n\n")
    engine = SPEAKERS[transport]()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    hearing = threading.Lock()

    def ask_late() -> None:
        # in a thread: a signal handler would wait for the main thread, which may already be reading
        while signal.sigwait({signal.SIGUSR1}):
            with hearing:  # outside a turn
                engine.send_ask("late")

    threading.Thread(target=ask_late, daemon=True).start()
    while True:
        message = get()
        with hearing:
            engine.hear(message)
