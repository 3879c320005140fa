"""The user's allow-list for false alarms of the secret scan.

It lies in the DSH home, outside the memory root, so that neither Git nor an agent that works on a staged
copy has it: `$DSH_HOME/memory-allowed-secrets`, one `sha256:<hex>` a line. A refusal names the digest to add.
"""

from __future__ import annotations

import os
from typing import Final

from dsh_memory.environment import Environment
from dsh_memory.records.secrets import parse_allow_list

ALLOW_LIST_NAME: Final = "memory-allowed-secrets"
_LARGEST: Final = 1024 * 1024


def read_allowed_secrets(environment: Environment) -> frozenset[str]:
    """The digests a person has allowed; none where the list is missing, unreadable or no plain file."""
    path = os.path.join(environment.dsh_home, ALLOW_LIST_NAME)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return frozenset()
    with os.fdopen(descriptor, "rb") as stream:
        try:
            return parse_allow_list(stream.read(_LARGEST))
        except OSError:
            return frozenset()
