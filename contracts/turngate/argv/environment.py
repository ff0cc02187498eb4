"""The environment variables of an engine: an allow-list, and those that decide where sessions are stored."""

from collections.abc import Iterable, Mapping

from turngate.contract.structs import EngineContract

_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
BASE = frozenset(
    {
        "PATH", "LANG", "TERM", "TZ", "USER", "LOGNAME", "SHELL", "TMPDIR",
        *_PROXIES, *(name.lower() for name in _PROXIES),
        "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS",
    }
)  # fmt: skip
_BASE_PREFIX = "LC_"


def engine_environment(
    contract: EngineContract,
    server_env: Mapping[str, str],
    locations: Mapping[str, str | None],
    extra_names: Iterable[str] = (),
) -> dict[str, str]:
    """Build the whole environment of an engine, except PWD.

    From `server_env` it takes what every program gets, what the contract passes, and the operator's `extra_names`. The
    variables that decide where sessions are stored come from `locations` alone, where None means unset.
    """
    allowed = BASE.union(contract.environment.passed, extra_names) - {*_location_names(contract), *locations}
    passed = {name: value for name, value in server_env.items() if name in allowed or name.startswith(_BASE_PREFIX)}
    return relocated(passed, locations)


def locations_of(contract: EngineContract, server_env: Mapping[str, str]) -> dict[str, str | None]:
    """Return the variables that decide where sessions are stored, fixed for a whole run; None: unset."""
    return {name: server_env.get(name) for name in _location_names(contract)}


def relocated(env: Mapping[str, str], locations: Mapping[str, str | None]) -> dict[str, str]:
    """Return `env` with the session location variables that the run started with."""
    others = {name: value for name, value in env.items() if name not in locations}
    return others | {name: value for name, value in locations.items() if value is not None}


def _location_names(contract: EngineContract) -> tuple[str, ...]:
    return tuple(dict.fromkeys(("HOME", *contract.environment.locations)))
