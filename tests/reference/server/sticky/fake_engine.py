"""A sticky engine that does what each prompt says, on the transport that its first argument names.

`FAKE_FLAWS` holds, separated by blanks, what it does wrong from the start: `banner`, `deaf-to-mode`, `widened`,
`no-session`, `config-allows`, `no-options` (modes are set, and told, without them), `mute` (they are not told),
`contrary` (another one is told), `answers` (the answer to a request says what is in force), `one-model` (no request
sets another model).
"""

import signal
import subprocess
import sys
from typing import Any

from tests.reference.server.sticky.fake_prompts import FLAWS, SESSION, Engine, Message, get, put
from tests.reference.server.sticky.fake_rpc import Acp, AppServer


class StreamJson(Engine):
    """Messages and control requests as JSON objects."""

    def answer(self, message: Any) -> None:
        """Answer a prompt or a control request."""
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
        """Send a control request and give the whole response."""
        self.control({"subtype": method, **params})
        return get()["response"]

    def control(self, request: Message) -> str:
        """Send a control request and give its id."""
        self.asked += 1
        put({"type": "control_request", "request_id": str(self.asked), "request": request})
        return str(self.asked)


SPEAKERS: dict[str, type[Engine]] = {"acp": Acp, "app_server": AppServer, "stream_json": StreamJson}


def main() -> None:
    """Speak until the input ends."""
    transport, *rest = sys.argv[1:]
    if transport == "launcher":
        # the engine inherits the pipes, as behind many launchers
        sys.exit(subprocess.call([sys.executable, __file__, *rest]))
    if rest[:1] == ["config"]:
        action = "allow" if "config-allows" in FLAWS else "ask"
        put({"permission": {"*": "ask", "bash": {"git *": action}}, "other": "allow"})
        return
    if "banner" in FLAWS:
        sys.stdout.write("Welcome! {not json\n[]\n7\n\n")
    engine = SPEAKERS[transport]()
    # outside of a turn
    signal.signal(signal.SIGUSR1, lambda *_: engine.send_ask("late"))
    while True:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
        message = get()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
        engine.hear(message)


if __name__ == "__main__":
    main()
