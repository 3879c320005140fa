"""Builds real memory repositories, whatever the developer's own Git configuration says."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

from dsh_memory.environment import Environment
from dsh_memory.repository.opening import Repository

#: The instant of every commit and file time that a test does not choose itself.
NOON = datetime(2026, 8, 20, 12, 0, 0, tzinfo=UTC)
FOLDERS = ("handbook", "rollouts", "archive")
SYNC_GITIGNORE = "operation.lock\nactive-run.json\npreviews/\nusage.json\nusage.lock/\n.usage.*.tmp\n"


def record(identity: str, body: str = "Some text.\n", **fields: str) -> str:
    """A record's text: `identity` is its id, `fields` are further header lines as typed."""
    lines = ["schema_version: 1", f"id: {identity}", *(f"{key}: {value}" for key, value in fields.items())]
    return "---\n" + "\n".join(lines) + f"\n---\n\n{body}"


class MemoryRepository:
    """A memory repository on disk that a test shapes freely, with plain files and plain git."""

    def __init__(self, root: Path, dsh_home: Path | None = None) -> None:
        self.root = root
        self.environment = Environment(
            dsh_home=str(dsh_home or root.parent / "dsh-home"), memory_root=str(root)
        )

    @classmethod
    def create(
        cls,
        root: Path,
        files: Mapping[str, str | bytes] | None = None,
        *,
        dsh_home: Path | None = None,
        object_format: str = "sha1",
        at: datetime = NOON,
    ) -> MemoryRepository:
        """A repository with the usual skeleton and `files`, in one commit at `at`."""
        memory = cls.unborn(root, dsh_home=dsh_home, object_format=object_format)
        memory.write_all(files or {})
        memory.commit("Initialize DPSK memory repository", at=at)
        return memory

    @classmethod
    def unborn(
        cls, root: Path, *, dsh_home: Path | None = None, object_format: str = "sha1"
    ) -> MemoryRepository:
        """The same before its first commit, without other files."""
        root.mkdir(parents=True)
        memory = cls(root, dsh_home)
        memory.git("init", "-q", "-b", "main", "--template=", f"--object-format={object_format}", ".")
        for folder in (*FOLDERS, ".sync"):
            (root / folder).mkdir(mode=0o700)
        memory.write_all(
            {
                "README.md": "reference\n",
                "summary.md": "",
                ".last-sync": "0\n",
                ".sync/.gitignore": SYNC_GITIGNORE,
            }
        )
        return memory

    def open(self) -> Repository:
        """The repository as the program opens it; the test closes it."""
        return Repository.open(self.environment)

    def git(
        self,
        *arguments: str,
        stdin: bytes = b"",
        at: datetime = NOON,
        environment: Mapping[str, str] | None = None,
    ) -> bytes:
        """The output of a git process that knows no configuration but the repository's; it must succeed."""
        date = f"{int(at.timestamp())} +0000"
        variables = {
            "PATH": os.environ["PATH"],
            "HOME": "/nonexistent",
            "LC_ALL": "C",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": "Tester",
            "GIT_AUTHOR_EMAIL": "tester@localhost",
            "GIT_AUTHOR_DATE": date,
            "GIT_COMMITTER_NAME": "Tester",
            "GIT_COMMITTER_EMAIL": "tester@localhost",
            "GIT_COMMITTER_DATE": date,
            **(environment or {}),
        }
        command = ["git", "-C", str(self.root), *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, env=variables)
        if done.returncode:
            raise AssertionError(
                f"{command} ended with {done.returncode}: {done.stderr.decode(errors='replace')}"
            )
        return done.stdout

    def path(self, name: str | bytes) -> Path:
        """The path of a file below the root; a bytes name is any name the system allows."""
        return self.root / os.fsdecode(name)

    def write(self, name: str | bytes, content: str | bytes, *, executable: bool = False) -> Path:
        """Write one file, its folders included, 0600 (0700 if executable) as the program would."""
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        path.chmod(0o700 if executable else 0o600)
        return path

    def write_all(self, files: Mapping[str, str | bytes]) -> None:
        for name, content in files.items():
            self.write(name, content)

    def remove(self, name: str | bytes) -> None:
        self.path(name).unlink()

    def commit(self, message: str = "A change", *, at: datetime = NOON) -> str:
        """Commit all that stands in the worktree (ignored files are left out); the commit's id."""
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "--no-verify", "-m", message, at=at)
        return self.head

    @property
    def head(self) -> str:
        return self.git("rev-parse", "HEAD").decode().strip()

    def set_times(self, at: datetime = NOON) -> None:
        """Give every file and folder outside the Git directory the modification time `at`."""
        stamp = at.timestamp()
        for folder, folders, files in os.walk(self.root):
            folders[:] = [name for name in folders if name != ".git"]
            for name in files:
                os.utime(os.path.join(folder, name), (stamp, stamp), follow_symlinks=False)

    def write_run(self, run_id: str, *, last: bool = True, **fields: Any) -> dict[str, Any]:
        """Write one run record as the journal holds it, `last` also as last-run.json; the record."""
        started = fields.pop("started_at", None) or _started_at(run_id)
        run: dict[str, Any] = {
            "schema_version": 1,
            "run_id": run_id,
            "operation": "sync",
            "status": "applied",
            "started_at": started,
            "finished_at": started,
            "candidate_sessions": None,
            "processed_sessions": None,
            "skipped_sessions": None,
            "changed_paths": [],
            "recovery_commit": None,
            "apply_commit": None,
            "error_code": None,
            "phase": "complete",
            "staging_digest": None,
            "duration_ms": 1000,
            "rejected_file_count": 0,
            "changed_path_count": len(fields.get("changed_paths", [])),
            **fields,
        }
        text = json.dumps(run, separators=(",", ":")) + "\n"
        self.write(f".sync/runs/{run_id}.json", text)
        if last:
            self.write(".sync/last-run.json", text)
        return run

    def write_preview(
        self,
        preview_id: str,
        changes: Mapping[str, str | bytes | None],
        *,
        created_at: datetime = NOON,
        lifetime: timedelta = timedelta(days=7),
        candidate_sessions: int | None = 1,
        **fields: Any,
    ) -> dict[str, Any]:
        """Write a preview of `changes` (None deletes) against the live payload; its six-key object."""
        live = self.live_payload()
        staged: dict[str, bytes] = dict(live)
        for name, content in changes.items():
            if content is None:
                del staged[name]
            else:
                staged[name] = content.encode() if isinstance(content, str) else content
        folder = f".sync/previews/{preview_id}"
        for folder_name in FOLDERS:
            self.path(f"{folder}/staging/{folder_name}").mkdir(parents=True, exist_ok=True)
        for name, data in staged.items():
            self.write(f"{folder}/staging/{name}", data)
        self.write(f"{folder}/staging/README.md", (self.root / "README.md").read_bytes())
        manifest = {
            "schema_version": 1,
            "created_at": _instant(created_at),
            "head_sha": self.head,
            "entries": [
                {
                    "path": name,
                    "mode": "100644",
                    "size": len(data),
                    "sha256": sha256(data).hexdigest(),
                }
                for name, data in sorted(live.items())
            ],
        }
        preview = {
            "preview_id": preview_id,
            "created_at": _instant(created_at),
            "expires_at": _instant(created_at + lifetime),
            "candidate_sessions": candidate_sessions,
            "changed_paths": sorted(changes),
            "status": "pending",
            **fields,
        }
        self.write(f"{folder}/manifest.json", json.dumps(manifest))
        self.write(f"{folder}/preview.json", json.dumps(preview))
        for path in (self.path(".sync/previews"), self.path(folder)):
            path.chmod(0o700)
        return preview

    def live_payload(self) -> dict[str, bytes]:
        """Every payload file's bytes, as they stand in the worktree."""
        files = {}
        candidates: Iterable[Path] = [self.root / "summary.md"]
        for folder in FOLDERS:
            candidates = [*candidates, *(self.root / folder).rglob("*")]
        for path in candidates:
            if path.is_file():
                files[str(path.relative_to(self.root))] = path.read_bytes()
        return files


def build_conformance_fixture(root: Path, fixture: Mapping[str, Any]) -> MemoryRepository:
    """One fixture of the conformance vectors: files, runs, one commit, and every time at `NOON`."""
    memory = MemoryRepository.unborn(root)
    memory.write_all(fixture["files"])
    for run in fixture.get("runs", []):
        text = json.dumps(run)
        memory.write(f".sync/runs/{run['run_id']}.json", text)
        memory.write(".sync/last-run.json", text)
    memory.commit("Initialize DPSK memory repository")
    memory.set_times()
    return memory


def _instant(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def _started_at(run_id: str) -> str:
    return _instant(datetime.strptime(run_id[:16], "%Y%m%dT%H%M%SZ"))
