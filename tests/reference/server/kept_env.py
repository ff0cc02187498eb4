"""A server whose engine is simulated, with a stub model, and runs that keep their process."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from msgspec.structs import replace

from tests.probes.simulate.played import at_known_release, install_quick
from tests.reference.server_env import ASK, ServerEnv, final
from turngate_probes.harness.sandbox import Sandbox, sandbox
from turngate_probes.stub_model import StubRule, Text

ANSWER = final(done=True)
ENDS = "that is all"


@dataclass
class KeptEnv:
    """A server environment whose model asks at every prompt, except at one with `ENDS`."""

    server_env: ServerEnv
    engine: str
    box: Sandbox

    def ask(self) -> str:
        """Create a run with a sticky process, and wait for its question."""
        run_id, _ = self.server_env.ask(engine=self.engine, interactive_profile="sticky_process")
        return run_id

    def reply(self, run_id: str, response: str) -> None:
        """Reply to the open question."""
        self.server_env.reply(run_id, self.server_env.question(run_id), response)

    def last_request(self) -> str:
        """Return the last request to the model."""
        return self.box.backend.exchanges()[-1].body.decode()


@contextmanager
def kept_env(server_env: ServerEnv, engine: str) -> Iterator[KeptEnv]:
    """Open a server with a simulated engine of this name."""
    contract = at_known_release(engine)
    install_quick(contract, server_env.cli_env.path)
    with sandbox(contract.hermetic, server_env.cli_env.root, "box", keep=False) as box:
        box.backend.script(StubRule(Text(ANSWER), contains=ENDS), StubRule(Text(ASK)))
        env = {
            **server_env.settings.env,
            **box.env(contract.hermetic, box.work),
            "PATH": server_env.settings.env["PATH"],
        }
        server_env.settings = replace(server_env.settings, env=env, pass_env=tuple(env))
        with server_env.opened():
            yield KeptEnv(server_env, engine, box)
