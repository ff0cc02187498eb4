"""The stranger whose repository is the workspace, and the signs of an effect."""

from collections.abc import Mapping
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from turngate.contract.home_and_workspace import Redirect, SetupFile
from turngate_probes.harness.sandbox import Stranger
from turngate_probes.stub_model import Exchange, StubBackend

FILES = (SetupFile("{work}/.env", "X={stranger}"),)
ADDRESS, ADDRESS_2, KEY, PROMPT, CONTAINER, PROGRAM = (
    Redirect("env", "address", FILES),
    Redirect("env-2", "address", FILES),
    Redirect("key", "credentials", FILES),
    Redirect("prompt", "system-prompt", FILES),
    Redirect("box", "container", FILES),
    Redirect("hook", "program", FILES),
)
EVERY = (ADDRESS, ADDRESS_2, KEY, PROMPT, CONTAINER, PROGRAM)


def request(path: str = "/v1/responses", body: bytes = b"", headers: Mapping[str, str] | None = None) -> Exchange:
    """Return a request to the model."""
    return Exchange(0.0, "POST", path, body=body, headers=headers or {})


def test_each_effect_names_its_cause() -> None:
    """A key, a text, a container's program and a program of its own are told apart."""
    with StubBackend() as address:
        stranger = Stranger(address, EVERY)
        key, text = stranger.slots(KEY)["planted"], stranger.slots(PROMPT)["marker"]
        assert stranger.effects([request()], ()) == ()
        assert stranger.effects([request(headers={"authorization": f"Bearer {key}"})], ()) == ("key",)
        assert stranger.effects([request(path=f"/v1/models?key={key}")], ()) == ("key",)
        assert stranger.effects([request(body=f'"{text}"'.encode())], ()) == ("prompt",)
        assert stranger.effects([], ("docker",)) == ("box",)
        assert stranger.effects([], ("hook", "prompts")) == ("hook",)


@pytest.mark.parametrize("below, named", [("/v1/responses", ("env",)), ("?x=1", ("env",)), ("-2/v1", ("env-2",))])
def test_a_request_at_its_address_names_the_redirect(below: str, named: tuple[str, ...]) -> None:
    """The address of a redirect is a path of its own, and each request counts once."""
    with StubBackend() as address:
        stranger = Stranger(address, EVERY)
        with pytest.raises(HTTPError):
            urlopen(f"{stranger.slots(ADDRESS)['stranger']}{below}")
        assert stranger.effects([], ()) == named
        assert stranger.effects([], ()) == ()


def test_a_request_that_names_nothing_counts_for_every_address() -> None:
    """An engine that keeps only the host of an address has still been redirected."""
    with StubBackend() as address:
        stranger = Stranger(address, EVERY)
        with pytest.raises(HTTPError):
            urlopen(f"{address.url}/unknown")
        assert stranger.effects([], ()) == ("env", "env-2")


def test_a_request_that_the_proxy_refused_to_pass_on_counts() -> None:
    """An engine that uses the proxy of the sandbox even for this machine has been redirected too."""
    with StubBackend() as address:
        stranger = Stranger(address, EVERY)
        there = stranger.slots(ADDRESS)["stranger"]
        assert stranger.effects([request(f"{there}/v1/responses")], ()) == ("env",)
        assert stranger.effects([request(there.split("/")[2])], ()) == ("env", "env-2")
        assert stranger.effects([request("127.0.0.1:1")], ()) == ()
