"""What the cases of the server level do, and what their clauses look for."""

SCHEMA = {
    "type": "object",
    "required": ["colour"],
    "additionalProperties": False,
    "properties": {"colour": {"enum": ["red", "blue"]}},
}
REFUSED = 401
HANGS = "hang-401"
RACERS = 10
REPEATS = 3
ALLOWED, DECLINED = "allowed", "declined"
UNSAFE = "ENGINE_UNSAFE"
