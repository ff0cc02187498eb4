from typing import Any

import pytest

from tests.reference.server.warm_env import WarmEnv, warm_env
from tests.reference.server_env import ServerEnv
from turngate_reference.server.requests import ApiError


def test_an_engine_without_proof_is_refused(closed_server_env: ServerEnv) -> None:
    """A run that asks for it is refused; the server's default is ignored, and the run says why."""
    with warm_env(closed_server_env, "qwen", warm_wait=60) as env:
        assert refusal(env, engine="qwen", execution_mode="interactive") == "WARM_WAIT_UNAVAILABLE"
        run_id, _ = env.ask(0)
        profile = env.server_env.run(run_id).profile
        assert profile
        assert (profile.warm_wait_sec, "qwen" in str(profile.warm_wait_reason)) == (0, True)
        assert env.server_env.run(run_id).process is None


def test_only_resumable_interactive_runs_can_wait(closed_server_env: ServerEnv) -> None:
    """A run that never asks, one with a sticky process, and one with an option that the process can't take."""
    with warm_env(closed_server_env) as env:
        for more in (
            {"execution_mode": "auto"},
            {"execution_mode": "interactive", "interactive_profile": "sticky_process"},
            {"execution_mode": "interactive", "engine_options": ["--sandbox", "read-only"]},
        ):
            assert refusal(env, engine="codex", **more) == "WARM_WAIT_UNAVAILABLE"


def refusal(env: WarmEnv, **request: Any) -> str:
    """Create a run with a warm wait that must be refused; return the code."""
    with pytest.raises(ApiError) as refused:
        env.server_env.create(warm_wait_sec=60, **request)
    return refused.value.code
