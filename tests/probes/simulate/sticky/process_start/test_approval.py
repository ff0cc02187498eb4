from tests.tables import each
from turngate.contract.launch import PermissionMode, Sticky
from turngate_probes.simulate.sticky.process_start import approval, contains, in_force

ASKS = PermissionMode(options=("--ask", "stdio"), mode="default", env={"GUARD": "1"})
ACTS = PermissionMode(options=("--ask", "stdio"), session={"policy": "never"})
STICKY = Sticky("acp", interactive=ASKS, auto=ACTS)


@each(
    "options, env, mode, fields, answer",
    [
        (("-v", "--ask", "stdio"), {"GUARD": "1"}, "default", {}, "ask"),
        (("--ask", "other"), {"GUARD": "1"}, "default", {}, "refuse"),
        (("--ask", "stdio"), {}, "default", {}, "act"),
        (("--ask", "stdio"), {"GUARD": "1"}, "yolo", {}, "act"),
        (("--ask", "stdio"), {"GUARD": "1"}, "default", {"policy": "never"}, "act"),
    ],
)
def test_it_asks_if_every_condition_holds(
    options: tuple[str, ...], env: dict[str, str], mode: str, fields: dict[str, str], answer: str
) -> None:
    """Options, environment, mode and session fields decide."""
    assert approval(STICKY, options, env, mode, fields) == answer


def test_a_variable_that_does_not_make_it_ask_may_be_missing() -> None:
    """Only the named variables count."""
    assert approval(STICKY, ("--ask", "stdio"), {}, "default", {}, ()) == "ask"
    assert approval(STICKY, ("--ask", "stdio"), {}, "default", {}, ("GUARD",)) == "act"


def test_without_a_mode_that_asks_it_acts() -> None:
    """A contract without mode interactive describes a process that acts."""
    assert approval(Sticky("acp"), (), {}, None, {}) == "act"


def test_the_fields_of_the_session_choose_the_mode_in_force() -> None:
    """All fields of mode auto must be there."""
    assert in_force(STICKY, {"policy": "never", "cwd": "/"}) is ACTS
    assert in_force(STICKY, {"policy": "untrusted"}) is ASKS


def test_words_are_contained_as_a_run() -> None:
    """The words must follow each other."""
    assert contains(("a", "b", "c"), ("b", "c"))
    assert not contains(("a", "b", "c"), ("a", "c"))


def test_a_field_that_mode_interactive_has_too_does_not_tell_it_apart() -> None:
    """A session that is opened with another sandbox, but with the policy of mode auto, doesn't ask."""
    asks = PermissionMode(session={"policy": "untrusted", "sandbox": "read-only"})
    acts = PermissionMode(session={"policy": "never", "sandbox": "read-only"})
    sticky = Sticky("app_server", interactive=asks, auto=acts)
    assert in_force(sticky, {"policy": "never", "sandbox": "workspace-write"}) is acts
    assert in_force(sticky, {"policy": "untrusted", "sandbox": "read-only"}) is asks
