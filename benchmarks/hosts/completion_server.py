"""A server of completions on loopback whose answers take time and no thought, for `fill_server.py`.

    python -m benchmarks.hosts.completion_server PORT

It speaks what `OpenAIEngine` asks vLLM for: streams of `/v1/completions`. A prompt is a number, and every
completion of prompt i is right with the same probability, Beta(1/2, 1/2) distributed over the prompts, and
takes log-normal seconds around 0.2. `/counts` says how many requests came, were answered, were hung up on by
the client, and run now.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator

import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

SECONDS, SIGMA = 0.2, 0.7
COUNTS: Counter[str] = Counter()


def chunk(index: int, text: str) -> bytes:
    part = {"index": index, "text": text, "finish_reason": "stop"}
    return f"data: {json.dumps({'choices': [part]})}\n\n".encode()


async def completions(prompt: int, n: int) -> AsyncIterator[bytes]:
    """The completions, each when it is written."""
    rng = np.random.default_rng([prompt, COUNTS["requests"]])
    right = rng.random(n) < np.random.default_rng(prompt).beta(0.5, 0.5)
    ends = np.sort(SECONDS * np.exp(SIGMA * rng.standard_normal(n)))
    COUNTS["running"] += 1
    try:
        before = 0.0
        for index, (end, good) in enumerate(zip(ends.tolist(), right.tolist(), strict=True)):
            await asyncio.sleep(end - before)
            before = end
            yield chunk(index, "right" if good else "wrong")
        yield b"data: [DONE]\n\n"
        COUNTS["answered"] += 1
    except asyncio.CancelledError:
        COUNTS["hung up"] += 1
        raise
    finally:
        COUNTS["running"] -= 1


async def complete(request: Request) -> Response:
    COUNTS["requests"] += 1
    try:
        asked = await request.json()
    except ClientDisconnect:
        COUNTS["hung up"] += 1
        return Response()
    prompt = int(asked["prompt"]) if asked["prompt"].isdigit() else 0
    return StreamingResponse(completions(prompt, asked.get("n", 1)), media_type="text/event-stream")


async def models(request: Request) -> JSONResponse:
    return JSONResponse({"data": [{"id": "simulated"}]})


async def counts(request: Request) -> JSONResponse:
    return JSONResponse(COUNTS)


if __name__ == "__main__":
    routes = [
        Route("/v1/completions", complete, methods=["POST"]),
        Route("/v1/models", models),
        Route("/counts", counts),
    ]
    uvicorn.run(Starlette(routes=routes), port=int(sys.argv[1]), log_level="warning", backlog=4096)
