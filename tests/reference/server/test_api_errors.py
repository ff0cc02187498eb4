from turngate_reference.server.api_errors import ApiError


def test_a_refusal_is_one_line_of_a_log() -> None:
    """Code and detail, and what to do about it where that is known."""
    assert str(ApiError("RUN_ENDED", "it has ended")) == "RUN_ENDED: it has ended"
    assert str(ApiError("RUN_ENDED", "it has ended", "create another")) == "RUN_ENDED: it has ended (create another)"
