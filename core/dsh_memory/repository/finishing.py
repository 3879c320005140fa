"""What a run does once its branch has moved: files, journal, preview and index follow the commit.

The transaction and recovery both end here, so that a run which died half-way is finished exactly as it
would have been.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime

from dsh_memory.errors import UnsafeLayout
from dsh_memory.repository.descriptors import CREATE_FLAGS, Folders, remove_tree
from dsh_memory.repository.git import GitFailed, WritingGit
from dsh_memory.repository.layout import Root
from dsh_memory.repository.lock import JOURNAL_PREFIX, SYNC_FOLDER, write_all
from dsh_memory.repository.objects import (
    CommitPlan,
    Settings,
    import_commits,
    null_id,
    payload_of,
    read_blobs,
)
from dsh_memory.repository.opening import Repository
from dsh_memory.repository.phases import reached
from dsh_memory.repository.plan import Plan
from dsh_memory.repository.previews import PREVIEWS_FOLDER
from dsh_memory.repository.projection import Outcome, Projection, Rescued
from dsh_memory.repository.refs import commit_of_branch, move_branch, private_ref
from dsh_memory.repository.workspace import Workspace

#: The index as it will be, in the run's own folder.
PREPARED_INDEX = "index.prepared"
_REFRESHED = "index.refreshed"
#: What a dead run may have left of its work on the index.
INDEX_FILES = (PREPARED_INDEX, f"{PREPARED_INDEX}.lock", _REFRESHED, f"{_REFRESHED}.lock")


def prepare_index(repo: Repository, git: WritingGit, workspace: Workspace, plan: Plan) -> None:
    """Builds the index as it will be, beside the real one, so that only a rename is left to do."""
    workspace.copy_index(PREPARED_INDEX)
    lines = []
    # Deletes first: a file may become a folder in the index, too.
    for change in sorted((*plan.index, *plan.operational), key=lambda change: change.after is not None):
        mode, blob = change.after or ("0", null_id(repo.object_format))
        lines.append(b"%b %b\t%b\0" % (mode.encode(), blob.encode(), os.fsencode(change.path)))
    git.run(
        "update-index",
        "-z",
        "--index-info",
        stdin=b"".join(lines),
        extra_environment=_index(workspace, PREPARED_INDEX),
    )


def finish(
    repo: Repository,
    git: WritingGit,
    workspace: Workspace,
    plan: Plan,
    projection: Projection,
    journal: Mapping[str, bytes],
    *,
    resumed: bool = False,
    refresh: bool = True,
) -> Outcome:
    """Brings worktree and index to the plan's end; the index is the prepared one.

    Raises OSError or GitFailed where the system refuses; recovery can finish it later.
    """
    # The index first: were this process to die now, a commit made by hand would not undo the new state.
    workspace.install_index(PREPARED_INDEX)
    reached("index")
    outcome = projection.run(resumed=resumed)
    reached("projection")
    write_journal(repo.root, journal)
    if plan.preview_id is not None:
        remove_tree(repo.root, f"{PREVIEWS_FOLDER}/{plan.preview_id}")
    reached("journal")
    # Without it the index is right, only slow to compare: no reason to fail.
    if refresh:
        with suppress(GitFailed, OSError):
            _refresh_index(git, workspace)
    reached("refreshed")
    return outcome


def check_journal_places(root: Root, paths: Mapping[str, bytes]) -> None:
    """Raises UnsafeLayout where a journal file could not be written for what stands at its place."""
    for path in paths:
        status = root.lstat(path)
        if status is not None and not stat.S_ISREG(status.st_mode):
            raise UnsafeLayout(
                "Something that is no file stands at a journal file's place.", detail=f"no-file: {path}"
            )


def journal_bytes(git: WritingGit, plan: Plan) -> dict[str, bytes]:
    """The journal files of a plan, read back from Git."""
    entries = {change.path: change.after.blob for change in plan.operational if change.after is not None}
    blobs = read_blobs(git, entries.values())
    return {path: blobs[blob] for path, blob in entries.items()}


def write_journal(root: Root, files: Mapping[str, bytes]) -> None:
    """Writes journal files into the worktree, each in one step and durably."""
    with Folders(root) as folders:
        for path, data in files.items():
            parent, _, name = path.rpartition("/")
            folder = folders.get(parent, create=True)
            temporary = f"{JOURNAL_PREFIX}{os.getpid()}-{secrets.token_hex(4)}.tmp"
            sync = folders.get(SYNC_FOLDER)
            descriptor = os.open(temporary, CREATE_FLAGS, 0o600, dir_fd=sync)
            try:
                try:
                    write_all(descriptor, data)
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
                os.rename(temporary, name, src_dir_fd=sync, dst_dir_fd=folder)
            except OSError:
                with suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=sync)
                raise
            folders.changed(parent)
        folders.flush()


def _refresh_index(git: WritingGit, workspace: Workspace) -> None:
    workspace.copy_index(_REFRESHED)
    # Status 1 says that some file differs from its entry, which is that file's business.
    git.run("update-index", "-q", "--refresh", accept=(0, 1), extra_environment=_index(workspace, _REFRESHED))
    workspace.install_index(_REFRESHED)


def _index(workspace: Workspace, name: str) -> dict[str, str]:
    return {"GIT_INDEX_FILE": os.path.join(workspace.path, name)}


def preserve(
    repo: Repository,
    git: WritingGit,
    run_id: str,
    branch: str,
    rescued: Mapping[str, Rescued],
    settings: Settings,
    now: datetime,
) -> str:
    """Gives Git the bytes that an editor wrote into files while they were taken out of the worktree.

    They stand in the branch's history, below another commit with the content of now. The branch's new commit;
    raises GitFailed.
    """
    tip = commit_of_branch(git, branch)
    if tip is None:
        raise GitFailed(("rev-parse",), 0, b"the branch is gone")
    payload = payload_of(git, tip)
    added = {path: found.entry for path, found in rescued.items()}
    chain = [
        CommitPlan(f"DPSK memory recovery checkpoint: {run_id}", added),
        # All of it, since a rescued file may stand where a folder is by now.
        CommitPlan(f"DPSK memory journal: {run_id}", {**dict.fromkeys(added), **payload}),
    ]
    commits = import_commits(
        git,
        repo.git_dir,
        private_ref(run_id),
        tip,
        chain,
        {found.entry.blob: found.data for found in rescued.values()},
        identity=settings.identity,
        now=now,
    )
    moved = move_branch(
        git,
        branch,
        new=commits[-1],
        old=tip,
        run_id=run_id,
        identity=settings.identity,
        message="dsh-memory: rescue",
    )
    if not moved:
        raise GitFailed(("update-ref",), 0, b"the branch was moved meanwhile")
    return commits[-1]
