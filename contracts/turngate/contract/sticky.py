"""What a contract says of keeping its engine's process over several turns."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field


class ModeQuery(Struct, frozen=True):
    """A command that prints the configuration in force; below each `key` only `values` may stand."""

    argv: tuple[str, ...]
    key: str
    values: tuple[str, ...]


class PermissionMode(Struct, frozen=True):
    """What makes a sticky process ask before it acts, or act alone, and what shows that it does.

    `env` and `options` stand at its start; `session` are fields of the request that opens a session, `holds` are
    fields of the answer with the values that they must have; `mode` is the session mode that is set and confirmed.
    """

    env: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    session: Mapping[str, str] = field(default_factory=dict)
    expect: Mapping[str, str] = field(default_factory=dict)
    mode: str | None = None
    query: ModeQuery | None = None


class OneTime(Struct, frozen=True):
    """The transport's words for allowing and refusing one action, and no more than that one."""

    allow: str
    deny: str


class Sticky(Struct, frozen=True):
    """How one process is kept over several turns, and which of its requests ask for permission.

    `options` are the callers' options that `argv` takes; a model is an `argument` or asked for of the `session`.
    `same_id` says whether a headless resume takes the transport's session id, `own_store` whether the process keeps
    its sessions elsewhere than headless turns do.
    """

    transport: Literal["acp", "app_server", "stream_json", "none"]
    argv: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    model: Literal["argument", "session"] = "argument"
    interactive: PermissionMode | None = None
    auto: PermissionMode | None = None
    permission_requests: tuple[str, ...] = ()
    one_time: OneTime | None = None
    same_id: bool = False
    own_store: bool = False
