"""What a probe says to an engine."""

from turngate import Mode
from turngate_probes.harness.driver import ASK, FINAL, ask


def test_each_prompt_has_a_nonce_of_its_own() -> None:
    """The first turn asks for a question, later ones reply to it, in the mode that is wanted."""
    first, again = ask(ASK), ask(FINAL, turn_index=2, mode=Mode.AUTO)
    assert first.prompt == f"Ask me which colour I like. {first.nonce}"
    assert again.prompt == f"blue {again.nonce}"
    assert (first.nonce != again.nonce, first.mode, again.mode) == (True, Mode.INTERACTIVE, Mode.AUTO)
