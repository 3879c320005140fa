"""Branch and private refs: every move is a compare-and-swap of a branch by its name."""

from __future__ import annotations

import os

from dsh_memory.repository.git import GitFailed, SealedGit, WritingGit
from dsh_memory.repository.objects import identity_environment

PRIVATE_REFS = "refs/dsh-memory/"


def private_ref(run_id: str) -> str:
    """The ref that keeps a run's commits from before the branch moves to them."""
    return PRIVATE_REFS + run_id


def place_private_ref(
    git: WritingGit, common_dir: str, run_id: str, commit: str, *, folder: int, name: str
) -> list[str]:
    """Makes the run's private ref of a durable file in `folder` that holds the commit's id and a line's end.

    It stands whole or not at all: Git cannot even delete a ref that was written in part. No process where refs are
    files; the answer is what has to be flushed for the ref to last.
    """
    if os.path.exists(os.path.join(common_dir, "reftable")):
        created = b"create %b\0%b\0" % (private_ref(run_id).encode(), commit.encode())
        git.run("update-ref", "--stdin", "-z", stdin=created)
        return []
    path = os.path.join(common_dir, private_ref(run_id))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.rename(name, path, src_dir_fd=folder)
    return [os.path.dirname(path)]


def branch_of_head(git: SealedGit) -> str | None:
    """The branch that HEAD names, without `refs/heads/`; None where it is detached."""
    answer = git.run("symbolic-ref", "--quiet", "HEAD", accept=(0, 1))
    return os.fsdecode(answer.removesuffix(b"\n")).removeprefix("refs/heads/") or None


def move_branch(
    git: WritingGit, branch: str, *, new: str, old: str, run_id: str, identity: str, message: str
) -> bool:
    """Moves the branch from `old` to `new` and drops the run's private ref, both or neither; whether it
    moved.

    False where the branch stands elsewhere. Raises GitFailed where Git refuses for another reason.
    """
    # guard: compare-and-swap
    commands = (
        b"start",
        b"update refs/heads/%b\0%b\0%b" % (os.fsencode(branch), new.encode(), old.encode()),
        # With its old value: once recovery has dropped the ref, a git process that outlived its dead parent
        # fails.
        b"delete %b\0%b" % (private_ref(run_id).encode(), new.encode()),
        b"prepare",
        b"commit",
    )
    try:
        git.run(
            *("update-ref", "-m", message, "--stdin", "-z"),
            stdin=b"".join(command + b"\0" for command in commands),
            extra_environment=identity_environment(identity),
        )
    except GitFailed:
        # What ended git may have come after the move, or been the lost race itself: only the ref can tell.
        stands_at = commit_of_branch(git, branch)
        if stands_at == new:
            return True
        if stands_at != old:
            return False
        raise
    return True


def commit_of_branch(git: SealedGit, branch: str) -> str | None:
    """The commit that the branch is at, None where there is no such branch."""
    ref = f"refs/heads/{branch}"
    answer = git.run("rev-parse", "--verify", "--quiet", "--end-of-options", ref, accept=(0, 1))
    return answer.decode("ascii").strip() or None


def drop_private_ref(git: WritingGit, run_id: str) -> None:
    """Deletes the run's private ref; it need not exist."""
    git.run("update-ref", "--stdin", "-z", stdin=b"delete %b\0\0" % private_ref(run_id).encode())


def contains(git: SealedGit, commit: str, ancestor: str) -> bool:
    """Whether `ancestor` is `commit` or in its history; False also where it is missing."""
    try:
        git.run("merge-base", "--is-ancestor", ancestor, commit)
    except GitFailed:
        return False
    return True
