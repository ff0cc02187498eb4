from tests.reference import cli_env as d
from tests.reference.caller import Caller
from tests.reference.server_env import ServerEnv
from turngate_reference.states import State


def test_metrics_tell_what_there_is(server_env: ServerEnv) -> None:
    """The metrics show runs by state, slots, and ended turns, with labels from small closed sets."""
    caller = Caller(server_env.server)
    server_env.cli_env.engine("codex", d.codex("x"))
    server_env.wait(server_env.create(), State.SUCCEEDED)
    caller.metrics.turn_ended("codex", "final", 0.3)
    text = caller.get("/metrics").body.decode()
    for line in (
        'turngate_runs{state="succeeded"} 1.0',
        'turngate_runs{state="waiting_user"} 0.0',
        "turngate_slots 2.0",
        "turngate_streams_open 0.0",
        'turngate_turns_total{engine="codex",outcome="final"} 1.0',
        'turngate_turn_seconds_bucket{engine="codex",le="0.5"} 1.0',
    ):
        assert line in text.splitlines()
