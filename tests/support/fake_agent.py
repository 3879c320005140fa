"""A program that plays the consolidating agent: `python fake_agent.py ROLE ... PROMPT`, working in its
folder.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path


def record(identity: str, body: str) -> str:
    return f"---\nschema_version: 1\nid: {identity}\n---\n\n{body}\n"


def good() -> None:
    Path("handbook/learned.md").write_text(record("project/learned", "TypeScript for code generation."))
    Path("summary.md").write_text("- handbook/learned.md\n")


def witness() -> None:
    """Writes what it was given to the file named by its second argument, and good edits."""
    prompt = sys.argv[-1]
    folder = Path(next(line.strip() for line in prompt.splitlines() if line.startswith("    /")))
    seen = {
        "cwd": os.getcwd(),
        "environment": dict(os.environ),
        "arguments": sys.argv[1:],
        "transcripts": {path.name: path.read_text() for path in sorted(folder.iterdir())},
        "files": sorted(str(path) for path in Path().rglob("*") if path.is_file()),
        "mode": os.stat("..").st_mode & 0o777,
    }
    Path(sys.argv[2]).write_text(json.dumps(seen))
    good()


def nothing() -> None:
    print("Nothing was worth keeping.")


def symlink() -> None:
    Path("handbook/link.md").symlink_to("/etc/passwd")


def folder_link() -> None:
    Path("archive").rmdir()
    Path("archive").symlink_to("/tmp")


def foreign() -> None:
    Path("notes.txt").write_text("x")


def readme() -> None:
    Path("README.md").write_text("changed")


def git() -> None:
    subprocess.run(["git", "init", "-q", "handbook/inner"], check=True)


def many() -> None:
    for number in range(51):
        Path(f"handbook/n{number}.md").write_text(record(f"n{number}", "x"))


def large() -> None:
    Path("handbook/large.md").write_text(record("large", "x" * (1024 * 1024)))


def heavy() -> None:
    for number in range(6):
        Path(f"handbook/h{number}.md").write_text(record(f"h{number}", "word " * 200_000))


def nul() -> None:
    Path("handbook/nul.md").write_bytes(record("nul", "a\0b").encode())


def latin() -> None:
    Path("handbook/latin.md").write_bytes(record("latin", "x").encode() + b"\xe9\n")


def malformed() -> None:
    Path("handbook/bad.md").write_text("---\nschema_version: 1\nid: Not Valid\n---\n\nx\n")


def version() -> None:
    Path("handbook/bad.md").write_text("---\nschema_version: 2\nid: valid\n---\n\nx\n")


def duplicate() -> None:
    Path("handbook/twin.md").write_text(record("project/kept", "x"))


def batch() -> None:
    for number in range(5):
        text = "no header ends here\n" if number == 3 else "x"
        identity = "Not Valid" if number == 3 else f"batch-{number}"
        Path(f"handbook/batch-{number}.md").write_text(record(identity, text))


def secret() -> None:
    Path("handbook/secret.md").write_text(record("secret", "the key is " + "ghp_" + "a1B2" * 9))


def delete_all() -> None:
    for path in Path("handbook").rglob("*.md"):
        path.unlink()


def shrink() -> None:
    Path("handbook/long.md").write_text(record("project/long", "[rest unchanged]"))


def move() -> None:
    os.rename("handbook/kept.md", "archive/kept.md")


def replace_by_folder() -> None:
    os.unlink("handbook/kept.md")
    os.mkdir("handbook/kept.md")
    Path("handbook/kept.md/inner.md").write_text(record("project/inner", "x"))


def again() -> None:
    Path("handbook/again.md").write_text(record("project/again", "Forget me."))


def hang() -> None:
    good()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)


def fork() -> None:
    """Leaves a child behind that goes on writing into the copy."""
    good()
    script = (
        "import time\nfor _ in range(6000):\n try:\n  open('handbook/late.md', 'a').write('late ')\n"
        " except OSError:\n  pass\n time.sleep(0.01)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    Path(sys.argv[2]).write_text(str(child.pid))
    while not Path("handbook/late.md").exists():
        time.sleep(0.01)


def noisy() -> None:
    sys.stdout.write("x" * 5_000_000 + "password=hunter2 the last words")
    good()


def fail() -> None:
    good()
    print("dsh: E_MODEL: no credit", file=sys.stderr)
    sys.exit(1)


def killed() -> None:
    good()
    os.kill(os.getpid(), signal.SIGKILL)


def locked_away() -> None:
    os.mkdir("handbook/closed")
    os.chmod("handbook/closed", 0)


def edit_live() -> None:
    """Good edits, while a person edits the live memory that the second argument names."""
    good()
    Path(sys.argv[2]).write_text("A person wrote this.\n")


def wait_for() -> None:
    """Says that it runs by making the file of its second argument, and ends when the third appears."""
    good()
    Path(sys.argv[2]).write_text("running")
    while not Path(sys.argv[3]).exists():
        time.sleep(0.01)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
