"""A chat-completions endpoint in place of a language model."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Model:
    """Asks for one tool call, then says a last word, and keeps what it was sent."""

    def __init__(self, tool: str, arguments: dict[str, object]) -> None:
        self.requests: list[dict[str, Any]] = []
        model, call = self, {"name": tool, "arguments": json.dumps(arguments)}

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: object) -> None:
                """Nothing: the requests are kept instead."""

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                model.requests.append(body)
                offered = [each["function"]["name"] for each in body.get("tools", [])]
                answered = any(each["role"] == "tool" for each in body["messages"])
                if tool in offered and not answered:
                    asked = {"index": 0, "id": "call_1", "type": "function", "function": call}
                    delta: dict[str, Any] = {"tool_calls": [asked]}
                    content = _stream(body["model"], delta, "tool_calls")
                else:
                    content = _stream(body["model"], {"role": "assistant", "content": "Done."}, "stop")
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Model:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def turns(self) -> list[list[dict[str, Any]]]:
        """The messages of each model call of the task itself, without those that make a title."""
        return [request["messages"] for request in self.requests if request.get("tools")]


def _stream(model: str, delta: dict[str, Any], finish: str) -> bytes:
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    usage |= {"prompt_cache_hit_tokens": 0, "prompt_cache_miss_tokens": 1}
    chunks = [{"delta": delta, "finish_reason": None}, {"delta": {}, "finish_reason": finish}]
    lines = [
        json.dumps(
            {
                "id": "c1",
                "object": "chat.completion.chunk",
                "created": 1,
                "model": model,
                "choices": [{"index": 0, **chunk}],
                **({"usage": usage} if chunk["finish_reason"] else {}),
            }
        )
        for chunk in chunks
    ]
    return b"".join(b"data: " + line.encode() + b"\n\n" for line in [*lines, "[DONE]"])
