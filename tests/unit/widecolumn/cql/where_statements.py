"""Random statements with WHERE clauses, carried out and held against a model of rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from docstore.widecolumn.cql.errors import CqlError
from docstore.widecolumn.cql.run.results import Rows
from tests.unit.widecolumn.cql.running import Cql, shown
from tests.unit.widecolumn.cql.where_model import COMPARISONS, Condition, Schema, TableModel

SLICES = ("<", "<=", ">", ">=")
STATEMENTS_PER_TABLE = 40
REFUSALS = (
    "Cannot execute this query as it might involve data filtering",
    "cannot be restricted",
    "More than one restriction was found",
    "Mixing single column relations and multi column relations",
    "Some clustering keys are missing",
    "Some partition key parts are missing",
    "Slice restrictions are not supported on the clustering columns in UPDATE statements",
    "Range deletions are not supported for specific columns",
    "Non PRIMARY KEY columns found in where clause",
    "Only EQ and IN relation are supported on the partition key",
    "IN predicates on non-primary-key columns",
    "IN on the partition key is not supported with conditional updates",
    "IN on the clustering key columns is not supported with conditional updates",
    "DELETE statements must restrict all PRIMARY KEY columns with equality relations",
    "ORDER BY is only supported when the partition key is restricted by an EQ or an IN.",
    "Invalid restrictions on clustering columns since the",
)
"""The texts that a statement of this generator may be refused with."""
NEED_FILTERING = ("might involve data filtering", "preceding column")
"""Of them, those that say that conditions cannot be met without filtering."""


@dataclass
class Outcome:
    """`wrong`: what was accepted and does not do what the model does, or failed in another way than by a refusal."""

    accepted: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def random_schema(rng: Random) -> Schema:
    """One or two partition columns, up to three clustering columns in random orders, ints and texts."""
    partition = ("p", "q")[: rng.choice((1, 1, 2))]
    clustering = tuple((f"c{at}", rng.random() < 0.5) for at in range(1, rng.choice((1, 2, 2, 3, 3)) + 1))
    statics = ("s",) if rng.random() < 0.6 else ()
    names = (*partition, *(name for name, _ in clustering), *statics, "v", "w")
    types = {name: rng.choice(("int", "int", "text")) for name in names}
    domains = {name: [0, 1, 2] if types[name] == "int" else ["", "a", "ab"] for name in names}
    if len(partition) == 1 and types["p"] == "text":
        domains["p"] = ["a", "ab", "b"]
    return Schema(partition, clustering, statics, ("v", "w"), types, domains)


def create_statement(schema: Schema) -> str:
    columns = ", ".join(
        f"{name} {schema.types[name]}{' static' if name in schema.statics else ''}" for name in schema.columns
    )
    key = ", ".join((f"({', '.join(schema.partition)})", *schema.clustering_names))
    order = ", ".join(f"{name} {'DESC' if descending else 'ASC'}" for name, descending in schema.clustering)
    return f"CREATE TABLE t ({columns}, PRIMARY KEY ({key})) WITH CLUSTERING ORDER BY ({order})"


def literal(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, tuple):
        return f"({', '.join(map(literal, value))})"
    if isinstance(value, list):
        return f"({', '.join(map(literal, value))})"
    return f"'{value}'" if isinstance(value, str) else str(value)


def condition_text(condition: Condition) -> str:
    names = f"({', '.join(condition.columns)})" if condition.is_tuple else condition.columns[0]
    return f"{names} {condition.comparison} {literal(condition.value)}"


class Statements:
    """Statements on one table of random shape."""

    def __init__(self, rng: Random, outcome: Outcome) -> None:
        self._rng = rng
        self._outcome = outcome
        self.schema = random_schema(rng)
        self._cql = Cql(largest=rng.choice((2, 5, 1000)))
        self._cql.run(create_statement(self.schema))
        self._model = TableModel(self.schema)
        for _ in range(rng.randint(5, 20)):
            self._insert()

    def run(self, count: int) -> None:
        """Carry out so many statements, with new rows now and then."""
        kinds = (self._select, self._select, self._modify, self._conditional, self._batch)
        for _ in range(count):
            if self._rng.random() < 0.4:
                self._insert()
            self._rng.choice(kinds)()

    # Parts of statements

    def _value(self, name: str) -> Any:
        return self._rng.choice(self.schema.domains[name])

    def _insert(self) -> None:
        key = {name: self._value(name) for name in (*self.schema.partition, *self.schema.clustering_names)}
        values = {name: self._value(name) for name in (*self.schema.statics, "v", "w") if self._rng.random() < 0.5}
        if self._rng.random() < 0.1 and self.schema.statics:
            # A partition that may have static values alone.
            self._model.statics.setdefault(tuple(key[name] for name in self.schema.partition), {})["s"] = (
                value := self._value("s")
            )
            key = {name: key[name] for name in self.schema.partition}
            values = {"s": value}
        else:
            self._model.insert(key, values)
        given = {**key, **values}
        self._cql.run(f"INSERT INTO t ({', '.join(given)}) VALUES ({', '.join(map(literal, given.values()))})")

    def _where(self, *, of_rows: float) -> list[Condition]:
        """Mostly the whole partition key, then conditions on clustering columns of every form, then some others."""
        rng, schema = self._rng, self.schema
        conditions: list[Condition] = []
        for name in schema.partition:
            if rng.random() < 0.9:
                conditions.append(self._single(name, points=0.97))
        position = 0
        names = schema.clustering_names
        while position < len(names):
            draw = rng.random()
            if draw > of_rows:
                position += 1
            elif draw < of_rows * 0.5:
                conditions.append(self._single(names[position], points=0.7))
                position += rng.choice((0, 1, 1, 1, 1))
            else:
                width = rng.randint(1, len(names) - position)
                conditions.append(self._tuple(names[position : position + width]))
                position += rng.choice((0, width, width, width))
            if len(conditions) > 6:
                break
        for name in (*schema.statics, *schema.regulars):
            if rng.random() < 0.08:
                conditions.append(self._single(name, points=0.5))
        rng.shuffle(conditions)
        return conditions

    def _single(self, name: str, points: float) -> Condition:
        if self._rng.random() >= points:
            return Condition((name,), self._rng.choice(SLICES), self._value(name), False)
        if self._rng.random() < 0.3:
            members = [self._value(name) for _ in range(self._rng.randint(1, 3))]
            return Condition((name,), "IN", members, False)
        return Condition((name,), "=", self._value(name), False)

    def _tuple(self, names: Sequence[str]) -> Condition:
        columns = tuple(names)
        comparison = self._rng.choice(("=", "IN", "IN", *SLICES))
        if comparison == "IN":
            members = [tuple(map(self._value, columns)) for _ in range(self._rng.randint(1, 3))]
            return Condition(columns, "IN", members, True)
        return Condition(columns, comparison, tuple(map(self._value, columns)), True)

    def _assignments(self) -> dict[str, Any]:
        names = [name for name in (*self.schema.statics, "v", "w") if self._rng.random() < 0.4]
        names = names or [self._rng.choice((*self.schema.statics, "v", "w"))]
        return {name: None if self._rng.random() < 0.2 else self._value(name) for name in names}

    def _targets(self) -> list[str]:
        return [name for name in (*self.schema.statics, "v", "w") if self._rng.random() < 0.2]

    @staticmethod
    def _written(conditions: Sequence[Condition]) -> str:
        return f" WHERE {' AND '.join(map(condition_text, conditions))}" if conditions else ""

    # Statements

    def _accepted(self, kind: str, text: str) -> list[tuple[Any, ...]] | None:
        """The rows of the result, as values; None for a refusal."""
        try:
            result = self._cql.run(text)
        except CqlError as error:
            if not any(refusal in str(error) for refusal in REFUSALS):
                self._fail(text, f"refused with {error}")
            if text.endswith("ALLOW FILTERING") and any(refusal in str(error) for refusal in NEED_FILTERING):
                self._fail(text, f"refused with {error}, though it may filter")
            self._outcome.refused[kind] += 1
            return None
        except Exception as error:
            self._fail(text, repr(error))
            return None
        self._outcome.accepted[kind] += 1
        return shown(result) if isinstance(result, Rows) else []

    def _fail(self, text: str, why: str) -> None:
        self._outcome.wrong.append(f"{create_statement(self.schema)}; {text}: {why}")

    def _select(self) -> None:
        rng = self._rng
        conditions = self._where(of_rows=0.7)
        names: Sequence[str] = self.schema.columns
        selected = "*"
        if rng.random() < 0.3:
            names = rng.sample(self.schema.columns, rng.randint(1, len(self.schema.columns)))
            selected = ", ".join(names)
        filtering = " ALLOW FILTERING" if rng.random() < 0.5 else ""
        first, descending = self.schema.clustering[0]
        reverse = rng.random() < 0.2
        order = f" ORDER BY {first} {'ASC' if descending else 'DESC'}" if reverse else ""
        text = f"SELECT {selected} FROM t{self._written(conditions)}{order}{filtering}"
        rows = self._accepted("SELECT", text)
        if rows is None:
            return
        reads_rows = any(name in (*self.schema.partition, *self.schema.statics) for name in names)
        matches = [
            row
            for row in self._model.selected(conditions)
            if reads_rows or row[self.schema.clustering_names[0]] is not None
        ]
        expected = [tuple(row[name] for name in names) for row in matches]
        self._compare(text, rows, expected)
        if not reverse or not any(part.comparison == "IN" and part.columns[0] in "pq" for part in conditions):
            # Several partitions in one order are not read in pages.
            pages = self._cql.paged(text, rng.randint(1, 4))
            self._compare(f"{text} (in pages)", [row for page in pages for row in page], expected)
        self._compare_order(text, names, rows, matches, reverse=reverse)

    def _compare_order(
        self, text: str, names: Sequence[str], rows: list[tuple[Any, ...]], matches: list[dict[str, Any]], *,
        reverse: bool,
    ) -> None:  # fmt: skip
        """The rows of one partition stand in the order of their clustering columns, or in its reverse."""
        if len({tuple(row[name] for name in self.schema.partition) for row in matches}) != 1 or len(matches) < 2:
            return
        for name, descending in reversed(self.schema.clustering):
            matches.sort(key=lambda row: row[name], reverse=descending != reverse)
        if rows != (expected := [tuple(row[name] for name in names) for row in matches]):
            self._fail(text, f"the order is {rows} instead of {expected}")

    def _compare(self, text: str, rows: Sequence[tuple[Any, ...]], expected: Sequence[tuple[Any, ...]]) -> None:
        if Counter(rows) != Counter(expected):
            self._fail(text, f"{sorted(rows, key=repr)} instead of {sorted(expected, key=repr)}")

    def _compare_table(self, text: str) -> None:
        """Hold the whole table against the model."""
        rows = self._cql.rows("SELECT * FROM t")
        expected = [tuple(row[name] for name in self.schema.columns) for row in self._model.selected(())]
        self._compare(text, rows, expected)

    def _modification(self, conditions: Sequence[Condition]) -> tuple[str, str, Any]:
        """(kind, text without IF, what the model is to do)."""
        where = self._written(conditions)
        restricted = {name for condition in conditions for name in condition.columns}
        no_rows = not restricted & set(self.schema.clustering_names)
        if self._rng.random() < 0.5:
            values = self._assignments()
            of_statics = no_rows and set(values) <= set(self.schema.statics)
            written = ", ".join(f"{name} = {literal(value)}" for name, value in values.items())
            return (
                "UPDATE",
                f"UPDATE t SET {written}{where}",
                lambda: self._model.update(conditions, values, of_statics=of_statics),
            )
        targets = self._targets()
        of_statics = no_rows and bool(targets) and set(targets) <= set(self.schema.statics)
        return (
            "DELETE",
            f"DELETE {', '.join(targets)} FROM t{where}",
            lambda: self._model.delete(conditions, targets, of_statics=of_statics),
        )

    def _modify(self) -> None:
        conditions = self._where(of_rows=0.9)
        if not conditions:
            return
        kind, text, change = self._modification(conditions)
        if self._accepted(kind, text) is not None:
            change()
            self._compare_table(text)

    def _batch(self) -> None:
        """Deletions, which have one timestamp and so may come in any order."""
        members = []
        for _ in range(self._rng.randint(1, 3)):
            conditions = self._where(of_rows=0.9)
            if conditions:
                members.append(conditions)
        texts = [f"DELETE FROM t{self._written(conditions)};" for conditions in members]
        text = f"BEGIN BATCH {' '.join(texts)} APPLY BATCH"
        if members and self._accepted("BATCH", text) is not None:
            for conditions in members:
                self._model.delete(conditions, (), of_statics=False)
            self._compare_table(text)

    def _conditional(self) -> None:
        """IF: mostly on one row, now and then on more, which is refused."""
        rng = self._rng
        names = (*self.schema.partition, *self.schema.clustering_names)
        if rng.random() < 0.6:
            conditions = [Condition((name,), "=", self._value(name), False) for name in names]
            if rng.random() < 0.3:
                start = len(self.schema.partition)
                columns = names[start:]
                value = tuple(condition.value for condition in conditions[start:])
                conditions[start:] = [Condition(columns, "=", value, True)]
        else:
            conditions = self._where(of_rows=0.9)
        if not conditions:
            return
        kind, text, change = self._modification(conditions)
        judged = [
            Condition((name,), rng.choice(tuple(COMPARISONS)), self._value(name), False)
            for name in ("v", "w")
            if rng.random() < 0.5
        ]
        judged = [
            Condition(part.columns, "IN", [part.value], False) if part.comparison == "IN" else part for part in judged
        ]
        text = f"{text} IF {' AND '.join(map(condition_text, judged)) if judged else 'EXISTS'}"
        rows = self._accepted(f"{kind} IF", text)
        if rows is None:
            return
        keys = list(self._model.keys(conditions))
        restricted = {name for condition in conditions for name in condition.columns}
        if len(keys) != 1 and restricted & set(self.schema.clustering_names):
            self._fail(text, f"accepted for {len(keys)} rows")
            return
        if restricted & set(self.schema.clustering_names):
            current = self._model.current(keys[0])
            exists = current is not None
        else:
            partition = next(iter(self._model.keys(conditions, partitions=True)))
            statics = self._model.statics.get(tuple(partition.values()), {})
            current, exists = None, any(value is not None for value in statics.values())
        applied = all(_is_met(part, current) for part in judged) if judged else exists
        if rows[0][0] is not applied:
            self._fail(text, f"[applied] is {rows[0][0]}")
        if applied:
            change()
        self._compare_table(text)


def _is_met(condition: Condition, current: dict[str, Any] | None) -> bool:
    """A condition of IF: null is unequal to every value, and neither less nor greater."""
    value = None if current is None else current[condition.columns[0]]
    if value is None:
        return condition.comparison == "!="
    return COMPARISONS[condition.comparison](value, condition.value)


def check(seed: int, count: int) -> Outcome:
    """Carry out so many statements, on tables of many shapes."""
    rng = Random(seed)
    outcome = Outcome()
    for _ in range(-(-count // STATEMENTS_PER_TABLE)):
        if outcome.wrong:
            break
        Statements(rng, outcome).run(STATEMENTS_PER_TABLE)
    return outcome
