"""Asks a service without a network."""

from __future__ import annotations

import asyncio
import json


def exchange(service, method, path, body=b"", *, token="secret", kind="application/json", parts=1):
    """The status, content type and body of the reply."""
    pieces = [body[len(body) * at // parts : len(body) * (at + 1) // parts] for at in range(parts)]
    messages = [
        {"type": "http.request", "body": piece, "more_body": at + 1 < parts}
        for at, piece in enumerate(pieces)
    ]
    sent = []

    async def receive():
        return messages.pop(0) if messages else {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    headers = [(b"authorization", f"Bearer {token}".encode()), (b"content-type", kind.encode())]
    scope = {"type": "http", "method": method, "path": path, "headers": headers}
    asyncio.run(service(scope, receive, send))
    return sent[0]["status"], dict(sent[0]["headers"])[b"content-type"].decode(), sent[1]["body"]


def post(service, question, **fields):
    status, kind, body = exchange(service, "POST", f"/{question}", json.dumps(fields).encode(), parts=2)
    assert kind == "application/json"
    return status, json.loads(body)
