"""What a contract says of where its engine keeps sessions, and of the environment that decides it."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from msgspec import Struct, field

from turngate.contract.values import ABSENT, Rule, Text, Unique, Variable, either, has


class StoreCheck(Struct, frozen=True):
    """How to see on disk that a session is there.

    pattern: Matches the session's file; {handle}, {handle:8} (its first eight characters), {cwd} (with a dash for all
        but letters and digits) and the variables stand for their values, * for any part of a name.
    query: One parameter, the handle; a row means that the session is there.
    """

    RULE: ClassVar[Rule] = either(has("kind", "sqlite"), ("file", "query"), ("pattern",))

    kind: Literal["glob", "sqlite"]
    pattern: Text = ""
    file: Text = ""
    query: Text = ""


class SessionStore(Struct, frozen=True):
    """Where a session lies on disk, so that a handle can be checked before it is used.

    locations: Variable -> its default, both usable in `check`; a default may use {HOME} and the variables before it.
    """

    locations: Mapping[str, Text]
    check: StoreCheck


class Environment(Struct, frozen=True):
    """Which variables of its surroundings an engine gets, more than every program gets (PATH, LANG, proxies ...).

    pass: Keys, base URLs, and switches of model, provider, trust, update and telemetry; passed as they are, and never
        written down.
    locations: Variables that decide where sessions and settings lie, those of `store` among them; kept from a run's
        first turn to its last. HOME always is one.
    """

    passed: Annotated[tuple[Variable, ...], Unique] = field(name="pass")
    locations: Annotated[tuple[Variable, ...], Unique]


class ResumeProbe(Struct, frozen=True):
    """What decides, before an engine is run, whether its sessions can be resumed.

    unsupported: Why sessions of these releases can't be resumed: they print no session id, or have no resume.
    directory: A directory that must be writable, or could be made. {HOME} and the variables of `store` stand for their
        values.
    """

    RULE: ClassVar[Rule] = {"if": has("unsupported"), "then": {"properties": {"directory": ABSENT}}}

    unsupported: Text | None = None
    directory: Text | None = None
