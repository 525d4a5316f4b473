"""Files of the cache."""

import hashlib
import os

import pytest

from backend.app.cache.store import (
    BadName,
    CacheStore,
    Corrupt,
    Missing,
    WrongOffset,
    stored_path,
)

DATA = b"a few bytes"
SHA = hashlib.sha256(DATA).hexdigest()
TRAVERSALS = [
    "../x",
    "a/../b",
    "/etc/passwd",
    "a\0b",
    ".",
    "..",
    "",
    "a\\..\\b",
    "%2e%2e",
    "é",
    "x" * 300,
]


@pytest.fixture
def store(tmp_path):
    return CacheStore(tmp_path / "cache")


def arrive(store, data=DATA, attempt="b.0.1", name="0.arrow"):
    with store.appending(attempt, name, 0) as file:
        file.write(data)


def test_accepted_files_lie_under_their_hash(store):
    arrive(store)
    path = store.accept("b.0.1", "0.arrow", size=len(DATA), sha256=SHA)
    assert path == f"{SHA[:2]}/{SHA[2:4]}/{SHA}"
    store.forget("b.0.1")
    assert store.verified(SHA, len(DATA)).read_bytes() == DATA
    assert not store.incoming("b.0.1").exists()


def test_a_file_that_is_not_what_was_announced_is_not_accepted(store):
    arrive(store)
    with pytest.raises(Corrupt, match="11 bytes instead of 12"):
        store.accept("b.0.1", "0.arrow", size=12, sha256=SHA)
    with pytest.raises(Corrupt, match="SHA-256"):
        store.accept("b.0.1", "0.arrow", size=len(DATA), sha256="0" * 64)
    with pytest.raises(Missing):
        store.accept("b.0.1", "1.arrow", size=len(DATA), sha256=SHA)
    assert list(store.stored()) == []


def test_a_symbolic_link_is_not_accepted(store, tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(DATA)
    arrive(store)
    store.incoming("b.0.1", "1.arrow").symlink_to(secret)
    with pytest.raises(Missing):
        store.accept("b.0.1", "1.arrow", size=len(DATA), sha256=SHA)
    with pytest.raises(OSError, match="symbolic"), store.appending("b.0.1", "1.arrow", 0):
        pass


def test_uploads_go_on_where_they_stopped(store):
    arrive(store, DATA[:4])
    assert store.received("b.0.1", "0.arrow") == 4
    with pytest.raises(WrongOffset) as error, store.appending("b.0.1", "0.arrow", 9):
        pass
    assert error.value.have == 4
    with store.appending("b.0.1", "0.arrow", 4) as file:
        file.write(DATA[4:])
    store.accept("b.0.1", "0.arrow", size=len(DATA), sha256=SHA)


def test_content_is_checked_again_when_the_file_changed(store):
    sha, size = store.put([DATA[:3], DATA[3:]])
    assert (sha, size) == (SHA, len(DATA))
    path = store.verified(SHA, size)
    path.chmod(0o600)
    path.write_bytes(b"A few bytes")
    with pytest.raises(Corrupt):
        store.verified(SHA, size)
    path.write_bytes(b"short")
    with pytest.raises(Corrupt, match="5 bytes"):
        store.verified(SHA, size)
    path.unlink()
    with pytest.raises(Missing):
        store.verified(SHA, size)


def test_cleaning_leaves_what_is_being_accepted(store):
    arrive(store)
    store.accept("b.0.1", "0.arrow", size=len(DATA), sha256=SHA)
    assert store.remove([SHA]) == 0
    store.forget("b.0.1")
    assert store.remove([SHA], younger_stay=3600) == 0
    assert store.remove([SHA]) == len(DATA)
    assert store.remove([SHA]) == 0


def test_the_same_content_of_two_attempts_is_one_file(store):
    for attempt in ("a.0.1", "b.0.1"):
        arrive(store, attempt=attempt)
        store.accept(attempt, "0.arrow", size=len(DATA), sha256=SHA)
        store.forget(attempt)
    usage = store.usage()
    assert (usage.files, usage.bytes, usage.incoming_bytes) == (1, len(DATA), 0)


def test_abandoned_attempts_go_and_live_ones_stay(store):
    for attempt in ("old.0.1", "live.0.1", "new.0.1"):
        arrive(store, attempt=attempt)
    for attempt in ("old.0.1", "live.0.1"):
        os.utime(store.incoming(attempt), (1, 1))
    found = store.abandoned(older_than=60, live=frozenset({"live.0.1"}))
    assert found == ["old.0.1"]
    store.clear_abandoned(found)
    assert not store.incoming("old.0.1").exists()
    assert store.incoming("live.0.1").exists()


@pytest.mark.parametrize("name", TRAVERSALS)
def test_names_never_lead_out(store, name):
    with pytest.raises(BadName):
        stored_path(name)
    with pytest.raises(BadName):
        store.incoming("b.0.1", name)
    if name != "x" * 300:
        with pytest.raises(BadName):
            store.incoming(name)
    assert store.read_proof(name) is False


def test_proof_of_a_shared_folder_goes_both_ways(store):
    nonce = "0123456789abcdef"
    assert store.read_proof(nonce) is False
    (store.root / "proof" / nonce).write_text(nonce)
    assert store.read_proof(nonce) is True
    assert (store.root / "proof" / f"{nonce}.server").read_text() == nonce
    (store.root / "proof" / nonce).write_text("other")
    assert store.read_proof(nonce) is False
