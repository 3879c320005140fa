"""A stand-in for `dsh-memory serve --stdio` that behaves as its first argument says."""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any


def send(message: dict[str, Any]) -> None:
    # Raw U+2028 on purpose: it may stand inside a JSON string.
    os.write(1, json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False).encode() + b"\n")


def ready(protocol: int = 1) -> None:
    send(
        {
            "method": "ready",
            "params": {"protocol": protocol, "server": "dsh-memory", "version": "x", "pid": os.getpid()},
        }
    )


def answer(message: dict[str, Any]) -> None:
    send(
        {
            "id": message["id"],
            "result": {"pid": os.getpid(), "asked": message["method"], "params": message["params"]},
        }
    )


def main(behaviour: str) -> None:
    if behaviour == "silent":
        signal.pause()
    ready(2 if behaviour == "other-protocol" else 1)
    held: list[dict[str, Any]] = []
    for line in sys.stdin:
        message = json.loads(line)
        if message["method"] == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        elif message["method"] == "garbage":
            os.write(1, b"no frame at all\n\xff\xfe\n[1, 2]\nnull\n{}\n")
            answer(message)
        elif message["method"] == "error":
            send({"id": message["id"], "error": {"code": -32603, "message": "Internal error"}})
        elif message["method"] == "hold":
            held.append(message)
        elif message["method"] == "release":
            for each in [message, *reversed(held)]:
                answer(each)
        else:
            answer(message)


if __name__ == "__main__":
    main(sys.argv[1])
