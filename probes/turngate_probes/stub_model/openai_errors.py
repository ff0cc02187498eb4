"""The error documents of the OpenAI APIs."""

from http import HTTPStatus

from turngate_probes.stub_model.wire import Json

_KINDS = {
    401: ("invalid_request_error", "invalid_api_key"),
    403: ("invalid_request_error", "unsupported_country_region_territory"),
    429: ("requests", "rate_limit_exceeded"),
}


def refusal(status: int, message: str) -> Json:
    """Say `message` as the OpenAI APIs do with this HTTP status."""
    other = "server_error" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "invalid_request_error"
    kind, code = _KINDS.get(status, (other, None))
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}
