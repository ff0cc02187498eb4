"""The environment variables of an engine: an allow-list, and the variables that locate its sessions."""

from collections.abc import Iterable, Mapping

from turngate.contract.engine_contract import EngineContract

_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
BASE = frozenset(
    {
        "PATH",
        "LANG",
        "TERM",
        "TZ",
        "USER",
        "LOGNAME",
        "SHELL",
        "TMPDIR",
        *_PROXIES,
        *(name.lower() for name in _PROXIES),
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "NODE_EXTRA_CA_CERTS",
    }
)
_BASE_PREFIX = "LC_"
_SYSTEM_PATH = "/bin:/usr/bin"


def engine_environment(
    contract: EngineContract,
    server_env: Mapping[str, str],
    locations: Mapping[str, str | None] | None = None,
    extra_names: Iterable[str] = (),
) -> dict[str, str]:
    """Build the complete environment of an engine, except PWD.

    From `server_env`, such as `os.environ`, it takes the variables that every program gets, those that the contract
    passes (including the engine's API keys), and `extra_names`. The variables that decide where sessions are stored
    come only from `locations`, where None means unset. Without `locations` they also come from `server_env`. Of PATH it
    takes only absolute folders.

    >>> codex = turngate.load_contract("codex", "0.169.0")
    >>> turngate.engine_environment(codex, {"PATH": "/bin", "HOME": "/home/me", "AWS_SECRET_ACCESS_KEY": "s3cr3t"})
    {'PATH': '/bin', 'HOME': '/home/me'}
    """
    if locations is None:
        locations = session_locations(contract, server_env)
    allowed = BASE.union(contract.environment.passed, extra_names) - {*_location_names(contract), *locations}
    passed = {name: value for name, value in server_env.items() if name in allowed or name.startswith(_BASE_PREFIX)}
    return relocated(with_absolute_path(passed), locations)


def with_absolute_path(env: Mapping[str, str]) -> dict[str, str]:
    """Return `env` without the empty and relative folders of its PATH, which an engine would look up in its workspace.

    If no folder is left, PATH has the system's own, since an empty PATH is the workspace, too.
    """
    if "PATH" not in env:
        return {**env}
    folders = (folder for folder in env["PATH"].split(":") if folder.startswith("/"))
    return {**env, "PATH": ":".join(folders) or _SYSTEM_PATH}


def session_locations(contract: EngineContract, server_env: Mapping[str, str]) -> dict[str, str | None]:
    """Return the variables that decide where sessions are stored, with their values in `server_env`; None: unset.

    Store them with the session if you may resume it in a different environment.

    >>> turngate.session_locations(turngate.load_contract("codex", "0.169.0"), {"PATH": "/bin", "HOME": "/home/me"})
    {'HOME': '/home/me', 'CODEX_HOME': None, 'CODEX_SQLITE_HOME': None}
    """
    return {name: server_env.get(name) for name in _location_names(contract)}


def relocated(env: Mapping[str, str], locations: Mapping[str, str | None]) -> dict[str, str]:
    """Return `env` with the session location variables that the run started with."""
    others = {name: value for name, value in env.items() if name not in locations}
    return others | {name: value for name, value in locations.items() if value is not None}


def _location_names(contract: EngineContract) -> tuple[str, ...]:
    return tuple(dict.fromkeys(("HOME", *contract.environment.locations)))
