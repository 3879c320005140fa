"""Words and figures as every pane shows them: ages, sizes, counts, short ids, signs of width one."""

from __future__ import annotations

from datetime import datetime, timedelta

from dsh_memory import visible
from dsh_memory.inspection import PathCommit

ON, OFF, GOOD, ATTENTION, BAD, BUSY, CLOSED, OPEN = "●", "○", "✓", "!", "✗", "…", "▸", "▾"
UNDONE = "↶"
_BARS = "▁▂▃▄▅▆▇█"


def age(then: datetime | None, now: datetime) -> str:
    """A time as a distance: `3 h ago`, `yesterday`, `in 5 days`; `never` for None."""
    if then is None:
        return "never"
    seconds = (now - then).total_seconds()
    if seconds < 0:
        return "in " + duration(then - now)
    if seconds < 45:
        return "just now"
    if timedelta(days=1) <= now - then < timedelta(days=2):
        return "yesterday"
    return duration(now - then) + " ago"


def duration(span: timedelta) -> str:
    """A span in its largest whole unit: `12 s`, `5 min`, `3 h`, `2 d`, `5 wk`, `2 yr`."""
    seconds = max(0, int(span.total_seconds()))
    for size, unit in ((31_557_600, "yr"), (4_233_600, "wk"), (86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // (604_800 if unit == 'wk' else size)} {unit}"
    return f"{seconds} s"


def days_left(days: int) -> str:
    """A number of days from today: `today`, `tomorrow`, `in 12 days`, `3 days ago`."""
    if days == 0:
        return "today"
    if days == 1:
        return "tomorrow"
    return f"in {days} days" if days > 0 else f"{plural(-days, 'day')} ago"


def exact(then: datetime | None) -> str:
    """A time to the second, UTC."""
    return "–" if then is None else then.strftime("%Y-%m-%d %H:%M:%S UTC")


def plural(number: int, noun: str, many: str | None = None) -> str:
    """A counted noun: `1 file`, `2 files`, `1,204 records`."""
    return f"{number:,} {noun if number == 1 else many or noun + 's'}"


def verb(number: int, one: str, many: str) -> str:
    """The verb that agrees with a number."""
    return one if number == 1 else many


def milliseconds(value: float | None) -> str:
    """A duration given in milliseconds: `820 ms`, `1.2 s`; a dash for None."""
    if value is None:
        return "–"
    return f"{value:,.0f} ms" if value < 1_000 else f"{value / 1_000:,.1f} s"


def size(octets: int) -> str:
    """A number of bytes: `128 B`, `4.2 KiB`, `1.0 MiB`."""
    if octets < 1_024:
        return f"{octets} B"
    return f"{octets / 1_024:,.1f} KiB" if octets < 1_048_576 else f"{octets / 1_048_576:,.1f} MiB"


def short(commit: str | None, digits: int = 7) -> str:
    """The first digits of a commit id; a dash for none."""
    return commit[:digits] if commit else "–"


def changes(added: int | None, removed: int | None) -> str:
    """Line counts of a changed file: `+3 −1`."""
    parts = []
    if added:
        parts.append(f"+{added:,}")
    if removed:
        parts.append(f"−{removed:,}")
    return " ".join(parts)


def sparkline(values: list[int] | tuple[int, ...]) -> str:
    """Counts as one line of bars, scaled to the greatest; zero is the lowest bar."""
    top = max(values, default=0)
    if top <= 0:
        return _BARS[0] * len(values)
    return "".join(
        _BARS[0 if value <= 0 else max(1, round(value / top * (len(_BARS) - 1)))] for value in values
    )


def bar(value: int, top: int, width: int) -> str:
    """A count as a bar of at most `width` cells; at least one cell for a count above zero."""
    return "" if value <= 0 or top <= 0 else "━" * max(1, round(value / top * width))


def who(commit: PathCommit) -> str:
    """Whose write a commit was, as it says itself: `v3 rest, claude`; nothing where other hands made it."""
    version = f"v{commit.version} " if commit.version is not None else ""
    hands = ", ".join(visible(word) for word in (commit.door, commit.agent) if word)
    return (version + hands).strip()
