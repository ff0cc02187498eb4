"""The engines of this machine."""

from flask import Blueprint, Response

from turngate_reference.web.views import edge, json_answer

blueprint = Blueprint("engines", __name__)


@blueprint.get("/v1/engines")
def every() -> Response:
    """List the engines."""
    return json_answer({"engines": edge().core.engines.every()})
