"""Seeded memories of any size: Zipf text in three scripts, the same bytes for the same size."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
from pathlib import Path

_EPOCH = 1_780_000_000
_TYPES = ("fact", "decision", "preference", "procedure", "constraint", "observation")
_HAN = "今天讨论了部署方案并记录数据库迁移结果用户喜欢简洁回答代码生成测试通过"
_KANA = "しりとりのテスト結果を記録する設定ファイルを確認して実行した"


def build(root: Path, records: int, *, seed: int = 1) -> Path:
    """A committed, clean memory of `records` records at `root`, every hundredth without front matter."""
    chance = random.Random(f"{seed}-{records}")
    words = _vocabulary(chance, 20_000)
    weights = list(itertools.accumulate(1 / rank for rank in range(1, len(words) + 1)))
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(root),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "LC_ALL": "C.UTF-8",
    }

    def git(*arguments: str, stdin: bytes = b"") -> None:
        subprocess.run(["git", "-C", str(root), *arguments], input=stdin, env=environment, check=True)

    root.mkdir(parents=True)
    git("init", "-q", "-b", "main", "--template=")
    stream = [
        b"commit refs/heads/main\ncommitter DPSK Memory <dpsk-memory@localhost> %d +0000\n" % _EPOCH,
        b"data 34\nInitialize DPSK memory repository\n\n",
    ]
    ignored = "operation.lock\nactive-run.json\npreviews/\nusage.json\nusage.lock/\n.usage.*.tmp\n"
    fixed = {
        "README.md": "reference\n",
        ".last-sync": "0\n",
        "summary.md": "# Summary\n",
        ".sync/.gitignore": ignored,
    }
    for path, text in fixed.items():
        stream.append(_file(path, text))
    for number in range(records):
        stream.append(_file(*_record(chance, number, words, weights)))
    git("fast-import", "--quiet", "--done", stdin=b"".join(stream) + b"done\n")
    git("reset", "-q", "--hard")
    for folder in ("handbook", "rollouts", "archive"):
        (root / folder).mkdir(exist_ok=True)
    (root / ".sync").chmod(0o700)
    return root


def _vocabulary(chance: random.Random, size: int) -> list[str]:
    syllables = [
        a + b for a in "bcdfghjklmnprstvw" for b in ("a", "e", "i", "o", "u", "an", "er", "it", "os")
    ]
    words: dict[str, None] = {}
    while len(words) < size:
        words["".join(chance.choices(syllables, k=chance.choice((1, 2, 2, 3, 3, 4))))] = None
    return list(words)


def _record(chance: random.Random, number: int, words: list[str], weights: list[float]) -> tuple[str, str]:
    folder = chance.choices(("handbook", "rollouts", "archive"), (6, 3, 1))[0]
    namespace = words[chance.randrange(200)]
    path = f"{folder}/{namespace}/r{number}.md"
    body = "\n".join(
        " ".join(chance.choices(words, cum_weights=weights, k=chance.randrange(6, 14)))
        for _ in range(chance.randrange(3, 12))
    )
    if number % 10 == 3:
        body += "\n" + "".join(chance.choices(_HAN, k=60))
    if number % 10 == 7:
        body += "\n" + "".join(chance.choices(_KANA, k=60))
    if number % 100 == 50:
        return path, body + "\n"
    day = f"2026-{chance.randrange(1, 13):02d}-{chance.randrange(1, 29):02d}"
    expiry = f"expires_at: 20{chance.choice((20, 99))}-01-01\n" if number % 20 == 5 else ""
    header = (
        f"schema_version: 1\nid: {namespace}/r{number}\ntype: {chance.choice(_TYPES)}\nstatus: active\n"
        f"confidence: high\ncreated_at: {day}\nupdated_at: {day}\ncreated_by: agent-{number % 7}\n{expiry}"
        f"tags:\n  - {words[chance.randrange(50)]}\n  - {words[chance.randrange(50)]}\n"
    )
    return path, f"---\n{header}---\n{body}\n"


def _file(path: str, text: str) -> bytes:
    data = text.encode()
    return b"M 100644 inline %s\ndata %d\n%s\n" % (path.encode(), len(data), data)
