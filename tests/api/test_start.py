"""What the HTTP application costs before anybody asks for all of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from tests.support.repositories import MemoryRepository

_PROGRAM = """
import json, sys
from pathlib import Path

from tests.api.serving import serving
from tests.support.repositories import MemoryRepository

memory = MemoryRepository(Path(sys.argv[1]), Path(sys.argv[2]))
loaded = lambda: sum(name.partition(".")[0] in ("mcp", "mcp_types") for name in sys.modules)
call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
headers = {"Accept": "application/json, text/event-stream"}
found = []
with serving(memory) as served:
    client, stranger = served.client(), served.client("")
    assert client.get("/v1/memories").status_code == 200
    assert stranger.post("/mcp", json=call, headers=headers).status_code == 401
    found.append(loaded())
    answers = [client.post("/mcp", json=call, headers=headers) for _ in range(2)]
    found.append(loaded())
print(json.dumps({"loaded": found, "statuses": [answer.status_code for answer in answers]}))
"""


def test_the_mcp_sdk_is_loaded_by_the_first_call_of_a_client(memory: MemoryRepository) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(memory.root), memory.environment.dsh_home],
        capture_output=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr.decode()
    value = json.loads(done.stdout)
    before, after = value["loaded"]
    assert before == 0 and after > 20
    assert value["statuses"] == [200, 200]
