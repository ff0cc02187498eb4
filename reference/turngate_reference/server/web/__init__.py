"""The HTTP interface of `contracts/turngate/openapi.yaml`."""
