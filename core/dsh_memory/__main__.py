"""`python -m dsh_memory`: how the DSH host's plugin starts the Python it was installed with."""

from __future__ import annotations

import sys

from dsh_memory.cli import main

sys.exit(main())
