"""What random requests are made of: names, numbers and values, from one source of random numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, TypeVar

import bson

from tests.differential.narrow.documents import Document, doc
from tests.differential.narrow.users import DATABASES, NAMES, USERS

T = TypeVar("T")
_WEIGHTS = (6, 4, 3, 4, 2, 2, 2, *[1] * (len(NAMES) - 7))
FIELDS = ("x", "y", "_id", "m", "at")


class Choices:
    """`random`: where everything comes from; `transactions`: the number of the newest transaction."""

    def __init__(self, random: Random, transactions: int) -> None:
        self.random = random
        self.transactions = transactions

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def pick(self, choices: Sequence[T]) -> T:
        return choices[int(self.random.random() * len(choices))]

    def made(self, makers: Sequence[Callable[[Choices], T]]) -> T:
        return self.pick(makers)(self)

    def below(self, bound: int) -> int:
        return int(self.random.random() * bound)

    def name(self) -> str:
        return self.random.choices(NAMES, _WEIGHTS)[0]

    def database(self) -> str:
        return self.pick(DATABASES)

    def namespace(self) -> str:
        return f"{self.database()}.{self.name()}"

    def user(self) -> str:
        return self.pick(("root", "spare", *USERS))

    def session(self) -> Document:
        """An lsid: of one's own, or that claims to be another's."""
        plain = doc(id=bson.Binary(bytes(15) + bytes([self.below(4)]), 4))
        if self.chance(0.85):
            return plain
        return doc(*plain, ("uid", bson.Binary(bytes(32), 0)))

    def filter(self) -> Document:
        return self.made(_FILTERS)

    def expression(self) -> Any:
        return self.made(_EXPRESSIONS)

    def modifier(self) -> Any:
        """What an update does: operators, a pipeline or a whole document."""
        return self.made(_MODIFIERS)


_FILTERS: tuple[Callable[[Choices], Document], ...] = (
    lambda c: doc(),
    lambda c: doc(x=c.below(9)),
    lambda c: doc(_id=c.below(5)),
    lambda c: doc(("x", doc(("$gt", c.below(5))))),
    lambda c: doc(("$expr", doc(("$eq", ["$x", c.expression()])))),
    lambda c: doc(("$or", [doc(x=1), doc(y=c.below(3))])),
    lambda c: doc(("x", doc(("$in", [1, 2, c.below(9)])))),
    lambda c: doc(x=77),
    lambda c: doc(("$jsonSchema", doc(required=["x"]))),
)
_EXPRESSIONS: tuple[Callable[[Choices], Any], ...] = (
    lambda c: "$x",
    lambda c: c.below(9),
    lambda c: "$$NOW",
    lambda c: "$$ROOT",
    lambda c: "$$z",
    lambda c: doc(("$add", ["$x", 1])),
    lambda c: doc(("$cond", doc(("if", True), ("then", "$x"), ("else", 1)))),
    lambda c: doc(("$let", doc(vars=doc(z="$x"), **{"in": "$$z"}))),
    lambda c: doc(("$getField", "x")),
    lambda c: doc(("$map", doc(input=["$x"], **{"in": "$$this"}))),
    lambda c: doc(("$divide", ["$x", 0])),
)
_MODIFIERS: tuple[Callable[[Choices], Any], ...] = (
    lambda c: doc(("$set", doc(y=c.below(9)))),
    lambda c: doc(("$set", doc(y=1)), ("$inc", doc(n=1))),
    lambda c: [doc(("$set", doc(y=c.expression())))],
    lambda c: [doc(("$set", doc(z=1))), doc(("$unset", "z"))],
    lambda c: [doc(("$replaceWith", doc(("$mergeObjects", ["$$ROOT", doc(y=1)]))))],
    lambda c: doc(x=c.below(9), m="written"),
    lambda c: doc(("$setOnInsert", doc(q=1))),
    lambda c: doc(("$push", doc(a=doc(("$each", [1, 2]))))),
    lambda c: [doc(("$lookup", doc(("from", c.name()), localField="x", foreignField="x", **{"as": "y"})))],
    lambda c: doc(("$rename", doc(y="w"))),
)
