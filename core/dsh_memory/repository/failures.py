"""How a transaction fails before it has changed anything."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from dsh_memory.repository.git import GitFailed
from dsh_memory.text import visible

Step = Literal["ready", "checkpoint", "stage", "commit"]


class TransactionFailed(Exception):
    """A transaction that changed nothing; `step` is how far it came, `detail` a short machine reason."""

    def __init__(self, step: Step, detail: str, message: str) -> None:
        super().__init__(message)
        self.step = step
        self.detail = detail
        self.message = message


@contextmanager
def failing(step: Step) -> Iterator[None]:
    """Turns what Git and the system refuse into TransactionFailed with that step."""
    try:
        yield
    except (GitFailed, OSError) as error:
        raise TransactionFailed(step, *refusal(error)) from error


def refusal(error: GitFailed | OSError) -> tuple[str, str]:
    """The short machine reason and the sentence for what Git or the system refuses."""
    if isinstance(error, GitFailed):
        return "git-killed" if error.status < 0 else "git-refused", f"Git refused: {error.message}"
    detail = errno.errorcode.get(error.errno or 0, "os-error").lower()
    return detail, f"The system refused: {error.strerror or type(error).__name__}."


def live_changed(step: Step, path: str) -> TransactionFailed:
    """The refusal when an outside editor changed a file under the transaction's hands."""
    message = f"{visible(path)} was changed by another program meanwhile."
    return TransactionFailed(step, "live-memory-changed", message)
