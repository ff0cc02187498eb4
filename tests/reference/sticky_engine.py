# ruff: noqa: T201 - engines print
"""Codex with an app server whose agent does what the line `do: …` of a prompt says.

`say TEXT` answers so, `allow TEXT` asks for one permission before (the answer ends with what was decided), `twice`
asks for two at once; everything else is for the fake engine of the sticky tests.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, "FOLDER")
from tests.reference.server.sticky import fake_engine, fake_prompts

whole_play = fake_prompts.Engine.play


def play(self: Any, prompt: str) -> Any:
    """Do what the prompt says, and note the prompt in `prompts` beside this file, one JSON text a line."""
    with Path(sys.argv[0]).with_name("prompts").open("a") as file:
        file.write(json.dumps(prompt) + "\n")
    ((order,),) = [re.findall(r"^do: (.*)$", prompt, re.MULTILINE)]
    word, _, rest = order.partition(" ")
    match word:
        case "say":
            return rest
        case "allow":
            (decision,) = self.ask(1)
            return rest.replace("DECISION", decision)
        case "twice":
            decisions = self.ask(2)
            return rest.replace("DECISION", "+".join(decisions))
        case "hang":
            Path(sys.argv[0]).with_name("meeting").write_text("hangs\n")
            fake_prompts.get()
    return whole_play(self, f"{word} {rest}".strip())


if sys.argv[1:] == ["--version"]:
    print("codex-cli 0.169.0")
elif "--help" in sys.argv:
    print("HELP")
else:
    setattr(fake_prompts.Engine, "play", play)  # noqa: B010 - a method is replaced
    sys.argv[1] = sys.argv[1].replace("app-server", "app_server")
    fake_engine.main()
