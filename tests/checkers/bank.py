"""A bank: money that transactions move between accounts, each with a row that says what it moved.

All of it is one state or another, so whatever reads it in one snapshot sees the accounts, the rows of the transfers and
the indexes of the same moment: the balances are what the accounts began with and what the rows say, neither more nor
less. What a snapshot shows is a mapping; a part that was not asked for is absent:

| part | what |
|---|---|
| accounts | balance by account |
| transfers | the ids of the transfers that have a row |
| by index | balance by account, as an index on the balance shows them |
| sum, count | of the balances, of the accounts, as a pipeline gives them |
| richer | [limit, ids of the accounts that have at least that, as an index gives them] |
| holders | names that are taken, each of which somebody holds at every moment |
| again | the accounts as they were read once more |

Transfers are operations whose key is their id and whose value is [from, to, amount]; the result of one that failed is
`ROLLED_BACK` where its commit was asked for: then a primary that was deposed may have shown it. Reads with the concern
"snapshot" are of the newest state when they began.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tests.checkers.history import Anomaly, Kind, Operation

ROLLED_BACK = "rolled back"


@dataclass(frozen=True, slots=True)
class Bank:
    """What stands in the beginning: balance by account, and the names that are held."""

    accounts: Mapping[Any, int]
    names: Collection[str] = ()


def check_bank(operations: Iterable[Operation], bank: Bank, final: Mapping[str, Any]) -> list[Anomaly]:
    """Every snapshot that was read, and the end, `final`, as a majority has it, where `transfers` are all there are."""
    operations = list(operations)
    transfers = {each.key: each for each in operations if each.kind is Kind.TRANSFER}
    found = [*_snapshot(final, bank, transfers, "in the end", ())]
    kept = set(final["transfers"])
    for each in transfers.values():
        if each.majority and each.key not in kept:
            found.append(Anomaly("lost transfer", f"a majority acknowledged {each.key}, which is gone", (each,)))
        if not each.may_have_happened and each.key in kept:
            found.append(Anomaly("aborted and happened", f"{each.key} had failed and is there", (each,)))
    for read in operations:
        if read.kind is Kind.READ_BANK and read.result is not None:
            found += _snapshot(read.result, bank, transfers, "in a read", (read,))
            found += _against_history(read, transfers, kept)
    return found


def check_unique(where: str, values: Iterable[Hashable]) -> list[Anomaly]:
    """Values of a field under a unique index."""
    twice = [value for value, times in Counter(values).items() if times > 1]
    return [Anomaly("unique key", f"{where}: {twice} stand several times")] if twice else []


def _snapshot(
    shown: Mapping[str, Any],
    bank: Bank,
    transfers: Mapping[Hashable, Operation],
    where: str,
    story: tuple[Operation, ...],
) -> Iterator[Anomaly]:
    """What does not belong to one moment."""
    accounts = dict(shown["accounts"])
    total = sum(bank.accounts.values())
    if set(accounts) != set(bank.accounts):
        yield Anomaly("torn snapshot", f"{where}: accounts {sorted(accounts)}", story)
        return
    if sum(accounts.values()) != total:
        yield Anomaly("torn snapshot", f"{where}: {sum(accounts.values())} in {accounts}, and not {total}", story)
    if "transfers" in shown:
        yield from _rows(accounts, shown["transfers"], bank, transfers, where, story)
    for part in ("by index", "again"):
        if part in shown and dict(shown[part]) != accounts:
            yield Anomaly("torn snapshot", f"{where}: {accounts}, and {part} {dict(shown[part])}", story)
    for part, expected in (("sum", total), ("count", len(bank.accounts))):
        if shown.get(part, expected) != expected:
            yield Anomaly("torn snapshot", f"{where}: {part} {shown[part]}, and not {expected}", story)
    if "richer" in shown:
        limit, ids = shown["richer"]
        expected_ids = sorted(account for account, balance in accounts.items() if balance >= limit)
        if sorted(ids) != expected_ids:
            yield Anomaly("phantom in a range", f"{where}: {sorted(ids)} have {limit}, and not {expected_ids}", story)
    if "holders" in shown and sorted(shown["holders"]) != sorted(bank.names):
        yield Anomaly("unique key", f"{where}: held are {sorted(shown['holders'])}, of {sorted(bank.names)}", story)


def _rows(
    accounts: Mapping[Any, int],
    rows: Collection[Hashable],
    bank: Bank,
    transfers: Mapping[Hashable, Operation],
    where: str,
    story: tuple[Operation, ...],
) -> Iterator[Anomaly]:
    twice = [key for key, count in Counter(rows).items() if count > 1]
    unknown = [key for key in rows if key not in transfers]
    if twice or unknown:
        yield Anomaly("phantom", f"{where}: transfers {unknown} that nobody made, {twice} that are there twice", story)
        return
    expected = dict(bank.accounts)
    for key in rows:
        source, target, amount = transfers[key].value
        expected[source] -= amount
        expected[target] += amount
    if expected != dict(accounts):
        moved = {account: balance - expected[account] for account, balance in accounts.items()}
        text = f"{where}: accounts are off by {moved} of what their {len(rows)} transfers say"
        yield Anomaly("half of a transaction", text, story)


def _against_history(
    read: Operation, transfers: Mapping[Hashable, Operation], kept: set[Hashable]
) -> Iterator[Anomaly]:
    rows = set(read.result.get("transfers", ()))
    for key in rows:
        transfer = transfers.get(key)
        if transfer is None:
            continue
        if not transfer.may_have_happened and (read.majority or transfer.result != ROLLED_BACK):
            yield Anomaly("G1a aborted read", f"{key} had failed", (transfer, read))
        elif transfer.invoked > read.ended:
            yield Anomaly("read of the future", f"{key} came later", (transfer, read))
        elif read.majority and key not in kept:
            yield Anomaly("read of rolled back", f"{key} was read and is gone", (transfer, read))
    if read.ok and read.read_concern == "snapshot" and "transfers" in read.result:
        for key in kept - rows:
            transfer = transfers.get(key)
            if transfer is not None and transfer.majority and transfer.ended < read.invoked:
                yield Anomaly(
                    "stale snapshot", f"{key} was acknowledged before", (transfer, replace(read, result=None))
                )
                return
