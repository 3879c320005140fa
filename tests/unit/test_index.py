"""The index and a plain reading of all files give the same answers, whatever happens to the files in between."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_memory import MemoryService
from dsh_memory.records.metadata import Record, is_expired, read_record
from dsh_memory.repository.usage import Usage, UsageEntry
from dsh_memory.repository.view import SCOPES
from dsh_memory.search import bits
from dsh_memory.search.context import choose
from dsh_memory.search.index import RecordIndex
from dsh_memory.search.ranking import rank, search_text, tokenize
from dsh_memory.search.segment import Document, Segment
from tests.support.clocks import FrozenClock
from tests.support.repositories import MemoryRepository
from tests.support.repositories import record as record_text

WORDS = [
    "codegen",
    "code",
    "gen",
    "the",
    "tabs",
    "部署",
    "方案",
    "しりとり",
    "끝말잇기",
    "İstanbul",
    "straße",
    "a",
    "Σας",
]
TODAY = date(2026, 8, 20)


def make(path: str, identity: str, body: str, **fields: str) -> Record:
    read = read_record(path, record_text(identity, body, **fields).encode())
    assert isinstance(read, Record)
    return read


def blobs_of(tree: list[Record]) -> dict[str, str]:
    return {record.path: record.sha256 for record in tree}


@st.composite
def records(draw: st.DrawFn) -> Record:
    number = draw(st.integers(0, 40))
    folder = draw(st.sampled_from(("handbook", "rollouts", "archive")))
    body = draw(st.lists(st.sampled_from(WORDS), max_size=8).map(draw(st.sampled_from((" ", "", "-"))).join))
    if draw(st.integers(0, 5)) == 0:
        legacy = read_record(f"{folder}/{number}.md", body.encode())
        assert isinstance(legacy, Record)
        return legacy
    fields = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "type": st.sampled_from(("decision", "fact")),
                "created_by": st.sampled_from(("codegen-bot", "x")),
                "expires_at": st.sampled_from(("2020-01-01", "2026-08-20", "2026-08-21")),
            },
        )
    )
    return make(f"{folder}/{number}.md", draw(st.sampled_from(("code/gen", "tabs", "a"))), body, **fields)


trees = st.lists(records(), max_size=12, unique_by=lambda record: record.path)
queries = st.lists(
    st.sampled_from([*WORDS, "ode", "署", "署方", "fact", "decision", "zzz"]), min_size=1, max_size=4
)


@settings(max_examples=150)
@given(trees, trees, queries, st.integers(1, 5), st.sampled_from(tuple(SCOPES.values())))
def test_answers_are_those_of_plain_reading(
    before: list[Record], after: list[Record], query: list[str], limit: int, folders: tuple[str, ...]
) -> None:
    index = RecordIndex()
    index.build(before, blobs_of(before))
    tokens = tokenize(" ".join(query))
    wanted = [
        record for record in after if record.path.split("/")[0] in folders and not is_expired(record, TODAY)
    ]
    corpus = index.corpus(after, blobs_of(after), folders, TODAY)
    assert corpus.rank(tokens, limit) == rank(wanted, tokens, limit)
    _, every = rank(wanted, tokens, len(wanted) + 1)
    found = [
        (candidate.get(), score) for score, candidates in corpus.groups(tokens) for candidate in candidates
    ]
    assert sorted((record.path, score) for record, score in found) == sorted(
        (hit.record.path, hit.score) for hit in every
    )
    every_one = sorted((candidate.path, candidate.id) for candidate in corpus.everything())
    assert every_one == sorted((record.path, record.id) for record in wanted)


@settings(max_examples=60, deadline=None)
@given(
    trees,
    trees,
    st.none() | queries,
    st.integers(1, 5),
    st.dictionaries(st.sampled_from([f"handbook/{number}.md" for number in range(41)]), st.integers(0, 3)),
)
def test_a_context_is_that_of_plain_reading(
    before: list[Record], after: list[Record], query: list[str] | None, limit: int, used: dict[str, int]
) -> None:
    index = RecordIndex()
    index.build(before, blobs_of(before))
    corpus = index.corpus(after, blobs_of(after), ("handbook",), TODAY)
    usage = Usage({path: UsageEntry(usage_count=count, generation=3 - count) for path, count in used.items()})
    tokens = None if query is None else tokenize(" ".join(query))
    wanted = [
        record for record in after if record.path.startswith("handbook/") and not is_expired(record, TODAY)
    ]
    scores = {record.path: 0 for record in wanted}
    if tokens is not None:
        scores = {hit.record.path: hit.score for hit in rank(wanted, tokens, len(wanted) + 1)[1]}

    def by_usage(record: Record) -> tuple[float, int, str, str]:
        entry = usage.of(record.path)
        return -entry.effective, entry.generation, record.id, record.path

    matching = [record for record in wanted if record.path in scores]
    selected = sorted(matching, key=lambda record: (-scores[record.path], by_usage(record)))[:limit]
    expected = [record.path for record in sorted(selected, key=by_usage)]
    assert [chosen.record.path for chosen in choose(corpus, tokens, limit, usage)] == expected


def test_the_first_by_id_are_found_however_many_there_are() -> None:
    chance = random.Random(7)
    tree = [make(f"handbook/{number}.md", f"n/r{chance.randrange(10**6)}", "tabs") for number in range(300)]
    segment = Segment.build(
        Document(record.sha256, record.path, search_text(record), record.id, None) for record in tree
    )
    ordered = sorted(range(300), key=lambda number: (segment.ids[number], segment.paths[number]))
    for held in (0, 1, 5, 40, 200, 300):
        members = set(chance.sample(range(300), held))
        apart = {segment.paths[number] for number in chance.sample(range(300), 9)} | {"handbook/none.md"}
        expected = [number for number in ordered if number in members and segment.paths[number] not in apart]
        for limit in (1, 7, 20):
            found = segment.first_by_id(bits.from_numbers(members, 300), limit, apart)
            beside = [number for number in found if segment.paths[number] not in apart]
            assert set(found) - set(beside) == {n for n in members if segment.paths[n] in apart}
            assert sorted(beside, key=ordered.index) == expected[:limit]


def test_a_large_share_of_changes_makes_a_new_segment_in_the_background() -> None:
    jobs = []
    index = RecordIndex(start=jobs.append)
    tree = [make(f"handbook/{number}.md", f"n/r{number}", "tabs") for number in range(600)]
    index.corpus(tree, blobs_of(tree), ("handbook",), TODAY)
    assert not jobs, "a process that asks once builds nothing"
    index.corpus(tree, blobs_of(tree), ("handbook",), TODAY)
    index.corpus(tree, blobs_of(tree), ("handbook",), TODAY)
    assert len(jobs) == 1, "one build at a time"
    jobs.pop()()
    assert index.corpus(tree, blobs_of(tree), ("handbook",), TODAY).others == []
    changed = [make(record.path, record.id, "spaces") for record in tree[:20]] + tree[20:]
    assert len(index.corpus(changed, blobs_of(changed), ("handbook",), TODAY).others) == 20
    assert not jobs, "few changes are scored plainly"
    changed = [make(record.path, record.id, "spaces") for record in tree[:100]] + tree[100:]
    index.corpus(changed, blobs_of(changed), ("handbook",), TODAY)
    assert len(jobs) == 1


def test_the_day_a_record_expires_it_is_gone_from_the_next_answer() -> None:
    index = RecordIndex()
    tree = [make("handbook/a.md", "a", "tabs", expires_at="2026-08-21")]
    index.build(tree, blobs_of(tree))
    assert index.corpus(tree, blobs_of(tree), ("handbook",), date(2026, 8, 20)).rank(["tabs"], 5)[0] == 1
    assert index.corpus(tree, blobs_of(tree), ("handbook",), date(2026, 8, 21)).rank(["tabs"], 5)[0] == 0


def test_bit_sets_hold_what_they_were_given() -> None:
    chance = random.Random(1)
    members = sorted(chance.sample(range(20_000), 3_000))
    held = bits.from_numbers(members, 20_000)
    assert list(bits.numbers(held)) == members
    assert bits.first(held, 7) == members[:7]
    counter = bits.Counter()
    expected = dict.fromkeys(members, 0)
    for weight in (1, 3, 2, 1, 7):
        some = set(chance.sample(members, 1_000))
        counter.add(bits.from_numbers(some, 20_000), weight)
        for member in some:
            expected[member] += weight
    found = {member: total for total, group in counter.groups(held) for member in bits.numbers(group)}
    assert found == {member: total for member, total in expected.items() if total}


def test_an_empty_segment_answers() -> None:
    assert Segment.build([]).best(["tabs"], 0, 5) == (0, [])
    one = make("handbook/a.md", "a", "")
    built = Segment.build([Document("k", one.path, search_text(one), one.id, None)])
    assert built.best(["observation"], 1, 5)[0] == 1


class TestNeverStale:
    """A service that was asked before sees what any program did since."""

    @pytest.fixture
    def service(self, memory: MemoryRepository) -> MemoryService:
        memory.write_all(
            {f"handbook/deep/{number}.md": record_text(f"n/r{number}", "tabs\n") for number in range(5)}
        )
        memory.commit()
        os.utime(memory.path("handbook/deep/0.md"), (1, 1))
        service = MemoryService(memory.environment, clock=FrozenClock())
        for _ in range(3):
            assert self.count(service, "tabs") == 5
        return service

    @staticmethod
    def count(service: MemoryService, query: str) -> int:
        envelope = service.search(query, scope="all")
        assert envelope["ok"] is True, envelope
        return int(envelope["value"]["count"])

    def test_edits(self, memory: MemoryRepository, service: MemoryService) -> None:
        memory.write("handbook/deep/1.md", record_text("n/r1", "spaces\n"))
        assert self.count(service, "tabs") == 4
        assert self.count(service, "spaces") == 1
        memory.remove("handbook/deep/1.md")
        assert self.count(service, "spaces") == 0
        memory.write("archive/new/deeper/still/a.md", record_text("a", "spaces\n"))
        assert self.count(service, "spaces") == 1
        memory.path("archive/new").rename(memory.path("rollouts/moved"))
        assert self.count(service, "spaces") == 1
        memory.write("rollouts/moved/deeper/still/a.md", record_text("a", "neither\n"))
        assert self.count(service, "spaces") == 0

    def test_an_edit_that_keeps_size_and_times(
        self, memory: MemoryRepository, service: MemoryService
    ) -> None:
        path = memory.path("handbook/deep/2.md")
        before = path.stat()
        path.write_bytes(path.read_bytes().replace(b"tabs", b"span"))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert self.count(service, "span") == 1

    def test_edits_by_another_process(self, memory: MemoryRepository, service: MemoryService) -> None:
        for turn in range(20):
            script = f"open('handbook/deep/3.md', 'a').write('word{turn}\\n')"
            subprocess.run([sys.executable, "-c", script], cwd=memory.root, check=True)
            assert self.count(service, f"word{turn}") == 1

    def test_git_checks_out_another_commit(self, memory: MemoryRepository, service: MemoryService) -> None:
        memory.git("checkout", "-q", "HEAD~1")
        assert self.count(service, "tabs") == 0
        memory.git("checkout", "-q", "main")
        assert self.count(service, "tabs") == 5

    def test_the_root_is_replaced(self, memory: MemoryRepository, service: MemoryService) -> None:
        memory.root.rename(memory.root.parent / "old")
        assert service.search("tabs")["ok"] is False
        MemoryRepository.create(
            memory.root, {"handbook/a.md": record_text("a", "tabs\n")}, dsh_home=memory.root.parent
        )
        assert self.count(service, "tabs") == 1

    def test_a_link_is_refused_and_its_removal_seen(
        self, memory: MemoryRepository, service: MemoryService
    ) -> None:
        link = memory.path("handbook/deep/link.md")
        link.symlink_to("/etc/passwd")
        for _ in range(2):
            envelope = service.search("tabs")
            assert envelope["ok"] is False and envelope["error"]["code"] == "unsafe-layout"
        link.unlink()
        assert self.count(service, "tabs") == 5

    def test_status_counts_the_same(self, memory: MemoryRepository, service: MemoryService) -> None:
        def dirty() -> bool:
            envelope = service.status()
            assert envelope["ok"] is True
            return bool(envelope["value"]["targetDirty"])

        assert not dirty() and not dirty()
        memory.write("summary.md", "changed\n")
        assert dirty()
        memory.write("summary.md", "")
        assert not dirty()
        memory.write("handbook/deep/4.md", record_text("n/r4", "other\n"))
        assert dirty()
        memory.commit()
        assert not dirty()


def test_a_settled_memory_is_not_read_again(
    memory: MemoryRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dsh_memory.repository import content

    memory.write_all({f"handbook/{number}.md": record_text(f"n/r{number}") for number in range(30)})
    memory.commit()
    monkeypatch.setattr(content, "SETTLED_NS", -(10**18))
    service = MemoryService(memory.environment, clock=FrozenClock())
    read: list[str] = []
    real = content.Reader.read
    monkeypatch.setattr(
        content.Reader, "read", lambda self, path, limit: read.append(path) or real(self, path, limit)
    )
    for _ in range(5):
        service.search("text")
        service.context("text")
    payload = [path for path in read if path.startswith("handbook/")]
    assert sorted(payload) == sorted({*payload}), "each file at most once, over all calls"


class TestKeptBetweenProcesses:
    """A new process answers from what earlier ones kept, and never otherwise than from the files."""

    @pytest.fixture
    def large(self, memory: MemoryRepository, monkeypatch: pytest.MonkeyPatch) -> MemoryRepository:
        from dsh_memory.repository import content

        # Files of a moment ago count as settled, as they will two seconds from now.
        monkeypatch.setattr(content, "SETTLED_NS", -(10**18))
        memory.write_all(
            {
                f"handbook/{n}.md": record_text(f"n/r{n}", f"tabs word{n}\n", expires_at="2026-08-21")
                for n in range(520)
            }
        )
        memory.write("handbook/bad.md", "---\nid: x\n---\n")
        memory.write("archive/old.md", "tabs, and no header\n")
        memory.commit()
        service = self.fresh(memory)
        self.ask(service)
        service.keep_index()
        return memory

    @staticmethod
    def fresh(memory: MemoryRepository, clock: FrozenClock | None = None) -> MemoryService:
        return MemoryService(memory.environment, clock=clock or FrozenClock())

    @staticmethod
    def ask(service: MemoryService) -> list[object]:
        asked = [
            service.search(query, limit=limit, scope=scope)
            for query in ("tabs", "word7", "word17 tabs", "header")
            for limit in (3, 1000)
            for scope in ("active", "all", "archive")
        ]
        return [envelope.get("value") for envelope in asked]

    def answers_like_plain_reading(self, memory: MemoryRepository, monkeypatch: pytest.MonkeyPatch) -> None:
        kept = [self.ask_one(self.fresh(memory), query) for query in ("tabs", "word7", "header", "gone")]
        with monkeypatch.context() as patch:
            patch.setattr("dsh_memory.search.index.load", lambda path: None)
            plain = [self.ask_one(self.fresh(memory), query) for query in ("tabs", "word7", "header", "gone")]
        assert kept == plain

    @staticmethod
    def ask_one(service: MemoryService, query: str) -> object:
        return service.search(query, limit=50, scope="all").get("value")

    def test_only_the_answered_files_are_read(
        self, large: MemoryRepository, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from dsh_memory.repository import content

        read: list[str] = []
        real = content.Reader.read
        monkeypatch.setattr(
            content.Reader, "read", lambda self, path, limit: read.append(path) or real(self, path, limit)
        )
        value = self.fresh(large).search("word7", limit=5)["value"]
        assert value["count"] == 11 and len(value["results"]) == 5 and value["skipped"] == 1
        assert [path for path in read if path.startswith("handbook/")] == [
            hit["path"] for hit in value["results"]
        ]
        del read[:]
        context = self.fresh(large).context("word7", limit=2)["value"]
        assert len([path for path in read if path.startswith("handbook/")]) == len(context["records"]) == 2

    def test_changes_of_every_kind(self, large: MemoryRepository, monkeypatch: pytest.MonkeyPatch) -> None:
        large.write("handbook/7.md", record_text("n/r7", "gone\n"))
        large.remove("handbook/8.md")
        large.path("handbook/9.md").rename(large.path("archive/moved.md"))
        large.write("rollouts/new.md", record_text("new", "word7 tabs\n"))
        self.answers_like_plain_reading(large, monkeypatch)

    def test_most_of_it_changed(self, large: MemoryRepository, monkeypatch: pytest.MonkeyPatch) -> None:
        for number in range(520):
            large.remove(f"handbook/{number}.md")
        large.write("handbook/new.md", record_text("new", "word7 tabs\n"))
        self.answers_like_plain_reading(large, monkeypatch)

    def test_expiry_at_query_time(self, large: MemoryRepository) -> None:
        clock = FrozenClock()
        clock.advance(days=1)
        assert self.fresh(large, clock).search("word7")["value"]["count"] == 0

    @pytest.mark.parametrize("name", ["segment-1", "contents-1.json"])
    @pytest.mark.parametrize("damage", ["cut", "empty", "flip", "gone", "folder"])
    def test_a_damaged_cache_counts_as_none(
        self, large: MemoryRepository, monkeypatch: pytest.MonkeyPatch, name: str, damage: str
    ) -> None:
        path = os.path.join(large.environment.cache_dir, name)
        with open(path, "rb") as file:
            data = bytearray(file.read())
        os.unlink(path)
        if damage == "folder":
            os.mkdir(path)
        elif damage != "gone":
            data[len(data) // 2] ^= 0x55
            kept = {"cut": data[: len(data) // 3], "empty": b"", "flip": data}[damage]
            with open(path, "wb") as file:
                file.write(kept)
        self.answers_like_plain_reading(large, monkeypatch)

    def test_a_cache_folder_that_cannot_be_written(
        self, memory: MemoryRepository, isolated: object, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null/nowhere")
        memory.write_all({f"handbook/{n}.md": record_text(f"n/r{n}", "tabs\n") for n in range(510)})
        service = self.fresh(memory)
        assert service.search("tabs")["value"]["count"] == 510
        service.keep_index()
        assert service.status()["ok"]
