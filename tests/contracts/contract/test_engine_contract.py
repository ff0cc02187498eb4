from turngate.contract import load


def test_each_stream_has_its_own_framing() -> None:
    """The framing of a stream is looked up by the stream's name."""
    contract = load.contract("iflow").at()
    assert [contract.stream(name).framing for name in ("stdout", "stderr")] == ["text", "tagged_block"]


def test_npm_package_is_absent_where_npm_has_no_release() -> None:
    """An engine that isn't published on npm has no npm package."""
    codex = load.contract("codex")
    assert codex.at().npm
    unpublished = load.Document("f", codex.document.data | {"published": {}}, {}, {})
    assert load.Contract(unpublished).at().npm is None
