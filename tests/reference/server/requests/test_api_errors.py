from turngate_reference.server.requests import ApiError


def test_a_refusal_is_one_line_of_a_log() -> None:
    """The line holds code and detail, and the hint if there is one."""
    assert str(ApiError("RUN_ENDED", "it has ended")) == "RUN_ENDED: it has ended"
    assert str(ApiError("RUN_ENDED", "it has ended", "create another")) == "RUN_ENDED: it has ended (create another)"
