"""A server that answers as vLLM does: of four completions of a prompt, one is "5" and three are "6"."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.rollout.server_setup import on_loopback

from curro.lab.model import build_tokenizer

FIRST, OTHER, EOS = build_tokenizer().convert_tokens_to_ids(["5", "6", "<eos>"])


@contextmanager
def vllm_server(before: Callable[[], object] = lambda: None) -> Iterator[str]:
    """Its address, while it runs; `before` is called before every answer to a prompt."""
    asked: Counter[tuple[int, ...]] = Counter()
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            assert self.path in ("/health", "/v1/models")
            self._answer({"data": [{"max_model_len": 256}]})

        def do_POST(self) -> None:
            assert self.path == "/v1/completions"
            prompt = tuple(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["prompt"])
            before()
            with lock:
                is_first = asked[prompt] % 4 == 0
                asked[prompt] += 1
            ids = [FIRST if is_first else OTHER, EOS]
            self._answer({"choices": [{"token_ids": ids, "logprobs": {"token_logprobs": [-1.0] * len(ids)}}]})

        def _answer(self, answer: dict[str, Any]) -> None:
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with on_loopback(Handler) as address:
        yield address
