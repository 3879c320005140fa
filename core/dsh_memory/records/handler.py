"""python-frontmatter's view of our front matter: the strict flat grammar in place of YAML.

Kept apart from the reading path: importing python-frontmatter loads a YAML parser (about 35 ms), which
writers can afford and a search cannot. Both paths share `grammar.parse_fields`, so there is one grammar. The
library's own `load` and `dumps` stay unused: they strip bodies and eat CRLF.
"""

from __future__ import annotations

import re

from frontmatter import Post
from frontmatter.default_handlers import BaseHandler

from dsh_memory.records.frontmatter import split
from dsh_memory.records.grammar import parse_fields
from dsh_memory.records.writing import field_lines


class FlatHandler(BaseHandler):
    """Load and export the text between the fences; raises FrontMatterError and ValueError."""

    FM_BOUNDARY = re.compile(r"\A---\r?\n")
    START_DELIMITER = END_DELIMITER = "---"

    def split(self, text: str) -> tuple[str, str]:
        """Cut a text at exact fences, or raise ValueError, which tells the library "no front matter"."""
        parts = split(text.encode())
        if parts.header is None:
            raise ValueError("the text has no front matter")
        return parts.header.decode(), parts.body.decode()

    def load(self, fm: str) -> dict[str, object]:
        """Read a header's text into its values."""
        return {key: field.value for key, field in parse_fields(fm).items()}

    def export(self, metadata: dict[str, object], **kwargs: object) -> str:
        """Write values as a header's text, in the order given; each line ends with a newline."""
        return "".join(f"{line}\n" for key, value in metadata.items() for line in field_lines(key, value))

    def format(self, post: Post, **kwargs: object) -> str:
        """Write header and body; unlike the library's own, the body keeps its outer blank lines."""
        return f"---\n{self.export(post.metadata)}---\n{post.content}"
