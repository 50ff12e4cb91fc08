"""What a member remembers of itself across a restart."""

from __future__ import annotations

from docstore.collection.store import Store
from docstore.replicaset.local_state import CONFIG_NS, ELECTION_NS, LocalState
from docstore.replication.messages import NO_VOTE, LastVote
from docstore.storage import MemoryEngine
from tests.unit.replication.members import config_of, with_member


def reopened(store: Store) -> LocalState:
    return LocalState(Store(store.engine, clock=lambda: 0.0))


def new_store() -> Store:
    return Store(MemoryEngine(), clock=lambda: 0.0)


def test_a_new_member_remembers_nothing() -> None:
    local = LocalState(new_store())
    assert (local.config, local.vote, local.initial_sync, local.rollback_id) == (None, NO_VOTE, False, 1)


def test_everything_written_is_there_after_a_restart() -> None:
    store = new_store()
    local = LocalState(store)
    config = with_member(config_of("a", "b"), 1, newly_added=True)
    local.write_config(config_of("a"))
    local.write_config(config)
    for term in (1, 2):
        local.write_vote(LastVote(term=term, candidate=0))
    local.write_initial_sync(True)
    local.raise_rollback_id()
    again = reopened(store)
    assert again.config == config
    assert again.vote == LastVote(term=2, candidate=0)
    assert again.initial_sync
    assert again.rollback_id == 2


def test_each_is_one_document_that_keeps_its_id() -> None:
    store = new_store()
    local = LocalState(store)
    local.write_vote(LastVote(term=1, candidate=0))
    collection = store.collection(ELECTION_NS)
    assert collection is not None
    first = next(collection.records(store.engine))
    local.write_vote(LastVote(term=2, candidate=1))
    second = next(collection.records(store.engine))
    assert collection.count == 1
    assert first[0] == second[0]
    assert store.collection(CONFIG_NS) is None
