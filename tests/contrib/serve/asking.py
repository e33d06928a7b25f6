"""Asks a service without a network."""

from __future__ import annotations

import json


def exchange(service, method, path, body=b"", *, kind="application/json"):
    """The status and the object of the reply."""
    status, reply = service.answer(method, path, body, kind)
    return status, json.loads(reply)


def post(service, question, **fields):
    return exchange(service, "POST", f"/{question}", json.dumps(fields).encode())
