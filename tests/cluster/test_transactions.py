"""Transactions of a driver on a set of real processes whose primaries are killed."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymongo
import pytest
from pymongo.client_session import ClientSession
from pymongo.errors import PyMongoError
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from tests.cluster.replica_set_processes import Client, Processes, running_set
from tests.harness.waiting import tried_until_done, wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]

ACCOUNTS, BALANCE = 6, 100
TELLERS = 3
ROUNDS = 3
SNAPSHOT, MAJORITY = ReadConcern("snapshot"), WriteConcern("majority")


@pytest.fixture
def members(tmp_path: Path) -> Iterator[Processes]:
    with running_set(tmp_path, 3, shards=False) as processes:
        bank = processes[0].test.accounts
        bank.create_index("balance", name="balance")
        bank.with_options(write_concern=MAJORITY).insert_many(
            [{"_id": number, "balance": BALANCE} for number in range(ACCOUNTS)]
        )
        yield processes


class Teller(threading.Thread):
    """Moves money by `with_transaction`, which begins anew what has not happened and asks for a commit until its
    outcome is known. `acknowledged`: the ids of its transfers, and `failed` those that came to an error, which may be
    there.
    """

    def __init__(self, uri: str, number: int) -> None:
        super().__init__(daemon=True)
        self.acknowledged: list[str] = []
        self.failed: list[str] = []
        self.stopping = threading.Event()
        self.wrong: BaseException | None = None
        self._number = number
        self._client: Client = pymongo.MongoClient(uri, serverSelectionTimeoutMS=20_000, socketTimeoutMS=20_000)
        self._random = random.Random(number)

    def run(self) -> None:
        done = 0
        while not self.stopping.is_set():
            done += 1
            try:
                if self._random.random() < 0.3:
                    self._audit()
                else:
                    self._transfer(f"{self._number}-{done}")
            except PyMongoError:
                # The set has no primary, perhaps.
                self.stopping.wait(0.05)
            except BaseException as error:
                self.wrong = error
                return

    def _transfer(self, key: str) -> None:
        source, target = self._random.sample(range(ACCOUNTS), 2)
        amount = self._random.randint(1, 9)

        def body(session: ClientSession) -> None:
            database = self._client.test
            for account, change in ((source, -amount), (target, amount)):
                found = database.accounts.find_one_and_update(
                    {"_id": account}, {"$inc": {"balance": change}}, session=session
                )
                assert found is not None
            row = {"_id": key, "from": source, "to": target, "amount": amount}
            database.transfers.insert_one(row, session=session)

        try:
            with self._client.start_session() as session:
                session.with_transaction(body, read_concern=SNAPSHOT, write_concern=MAJORITY)
        except PyMongoError:
            self.failed.append(key)
            raise
        self.acknowledged.append(key)

    def _audit(self) -> None:
        with self._client.start_session() as session:
            session.with_transaction(self._look, read_concern=SNAPSHOT, write_concern=MAJORITY)

    def _look(self, session: ClientSession) -> None:
        database = self._client.test
        balances = {each["_id"]: each["balance"] for each in database.accounts.find(session=session)}
        assert_books(balances, list(database.transfers.find(session=session)))
        by_index = {
            each["_id"]: each["balance"] for each in database.accounts.find({}, hint="balance", session=session)
        }
        assert by_index == balances

    def stop(self) -> None:
        self.stopping.set()
        self.join(60)
        assert not self.is_alive()
        self._client.close()
        assert self.wrong is None, self.wrong


def assert_books(balances: dict[Any, int], transfers: list[dict[str, Any]]) -> None:
    """The accounts hold what they began with and what the transfers say."""
    expected = dict.fromkeys(range(ACCOUNTS), BALANCE)
    for row in transfers:
        expected[row["from"]] -= row["amount"]
        expected[row["to"]] += row["amount"]
    assert balances == expected


def test_what_is_committed_stays_and_happens_once_while_primaries_are_killed(members: Processes) -> None:
    tellers = [Teller(members.uri(), number) for number in range(TELLERS)]
    for teller in tellers:
        teller.start()
    for _ in range(ROUNDS):
        before = sum(len(teller.acknowledged) for teller in tellers)
        wait_until(lambda before=before: sum(len(teller.acknowledged) for teller in tellers) > before + 5, 30)
        primary = members.wait_primary(timeout=20)
        members.kill(primary)
        members.wait_primary(timeout=20)
        members.restart(primary)
    wait_until(lambda: members.primary() is not None, 30)
    for teller in tellers:
        teller.stop()
    wait_until(members.converged, 30)
    for number in range(len(members.members)):
        database = members[number].get_database("test", read_preference=pymongo.ReadPreference.SECONDARY_PREFERRED)
        transfers = list(database.transfers.find())
        assert_books({each["_id"]: each["balance"] for each in database.accounts.find()}, transfers)
        ids = {each["_id"] for each in transfers}
        assert ids.issuperset(key for teller in tellers for key in teller.acknowledged)
        assert ids <= {key for teller in tellers for key in (*teller.acknowledged, *teller.failed)}


def commits(session: ClientSession) -> bool:
    """Whether it is committed: asked again while that is not known, as drivers tell applications to."""

    def ask() -> bool:
        try:
            session.commit_transaction()
        except PyMongoError as error:
            if error.has_error_label("TransientTransactionError"):
                return False
            raise
        return True

    return tried_until_done(ask, (PyMongoError,), 30)


def test_a_commit_whose_answer_is_lost_is_asked_for_again(members: Processes) -> None:
    """The primary is killed once it has what it is to commit and has perhaps said so to the others: whatever has become
    of it, its next primary says it, and it is there once or not at all."""
    outcomes = []
    for number, pause in enumerate((0.0, 0.002, 0.01)):
        primary = members.wait_primary(timeout=20)
        with pymongo.MongoClient(members.uri(), serverSelectionTimeoutMS=20_000) as client:
            with client.start_session() as session:
                session.start_transaction(read_concern=SNAPSHOT, write_concern=MAJORITY)
                client.test.accounts.update_one({"_id": 0}, {"$inc": {"balance": 1}}, session=session)
                client.test.lost.insert_one({"_id": number}, session=session)
                killer = threading.Timer(pause, members.kill, (primary,))
                killer.start()
                committed = commits(session)
                killer.join()
            majority = client.test.get_collection("lost", read_concern=ReadConcern("majority"))
            wait_until(lambda: members.primary() is not None, 20)
            found = majority.find_one({"_id": number}) is not None
        assert found == committed
        outcomes.append(committed)
        members.restart(primary)
        wait_until(members.converged, 30)
    balance = members[members.wait_primary()].test.accounts.find_one({"_id": 0})
    assert balance is not None
    assert balance["balance"] == BALANCE + sum(outcomes)
