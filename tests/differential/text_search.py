"""Text indexes and searches in them."""

from __future__ import annotations

from typing import Any

Case = dict[str, Any]

SPECIFICATIONS: list[Case] = [
    {"key": {"t": "text"}},
    {"key": {"t": "text", "a": 1}, "weights": {"t": 5}, "default_language": "french"},
    {"key": {"b": "text", "a": "text"}, "weights": {"c": 3, "a": 2.7}},
    {"key": {"a": 1, "t": "text", "b": -1}, "default_language": "EN", "language_override": "lang"},
    {"key": {"$**": "text"}},
    {"key": {"$**": "text", "a": "text"}, "weights": {"b.c": 2}},
    {"key": {"a.$**": "text"}},
    {"key": {"_fts": "text", "_ftsx": 1}, "weights": {"t": 1}},
    {"key": {"_fts": "text", "_ftsx": 1}},
    {"key": {"a": 1, "_fts": "text", "_ftsx": 1, "b": 1}, "weights": {"u": 3, "t": 1}},
    {"key": {"t": "text"}, "unique": True, "sparse": True, "expireAfterSeconds": 5, "bits": 4},
    {"key": {"t": "text"}, "partialFilterExpression": {"a": 1}, "hidden": True, "background": True},
    *({"key": {"t": "text"}, "default_language": name} for name in ("none", "bogus", "", "portuguese", 5)),
    *({"key": {"t": "text"}, "weights": weights} for weights in ({}, {"t": 0}, {"t": 100_000}, {"t": "x"}, {"$a": 1})),
    *({"key": {"t": "text"}, "language_override": name} for name in ("", "a.b", "$a", 5)),
    {"key": {"t": "text", "a": 1, "u": "text"}},
    {"key": {"t": "text"}, "collation": {"locale": "fr"}},
    {"key": {"t": "text"}, "textIndexVersion": 9},
    {"key": {"t": "text", "a": "hashed"}},
]
"""Each is given to an empty collection, and listed."""

AGAIN: list[tuple[Case, Case]] = [
    ({"key": {"t": "text"}}, {"key": {"t": "text"}}),
    ({"key": {"t": "text"}}, {"key": {"t": "text"}, "default_language": "english"}),
    ({"key": {"t": "text"}}, {"key": {"t": "text"}, "weights": {"t": 2}}),
    ({"key": {"t": "text"}}, {"key": {"u": "text"}, "name": "other"}),
    ({"key": {"t": "text"}}, {"key": {"t": "text", "a": 1}, "name": "other"}),
]

STORED: list[Case] = [
    *({"t": "x", "language": language} for language in ("bogus", 5, None, ["a"], "none", "FR")),
    {"t": "x", "a": [1, 2]},
    {"t": ["x", ["y"], {"z": "w"}, 5, None]},
    {"a": 1},
]

TEXTS: list[Case] = [
    {"_id": 0, "t": "The quick brown fox", "a": 0},
    {"_id": 1, "t": "Jumping jumps jumped jump over", "a": 1},
    {"_id": 2, "t": "running runner runs ran", "a": 2},
    {"_id": 3, "t": "caf\u00e9 CAFE Cafe\u0301 na\u00efve"},
    {"_id": 4, "t": ["one two", "two three three"], "a": 1},
    {"_id": 5, "t": {"a": "nested"}, "u": "fox"},
    {"_id": 6, "t": 5},
    {"_id": 7},
    {"_id": 8, "t": "it's a dog's life; don't e-mail foo_bar foo.bar 3.14 x-ray", "a": 0},
    {"_id": 9, "t": "the and of"},
    {"_id": 10, "t": "quick quick brown", "u": "fox and dog"},
    {"_id": 11, "t": "fox fox fox fox", "a": 1},
    {"_id": 12, "t": "Fox"},
    {"_id": 13, "t": "foxes", "s": {"u": "running", "language": "none"}},
    {"_id": 14, "t": "les chevaux mangeaient l'herbe verte des montagnes", "language": "french"},
    {"_id": 15, "t": "die H\u00e4user der Gro\u00dfeltern standen auf H\u00fcgeln", "language": "de"},
    {"_id": 16, "t": "corriendo las ni\u00f1as cantaban canciones", "language": "spanish"},
    {
        "_id": 17,
        "t": "running \u00abquoted\u00bb words\u2014and dashes\u2026 \u00bfsi? a/b c+d $5 100% #tag @user x=y [z] {w}",
    },
    {"_id": 18, "t": "generalization generously organized relational conditional happiness arguing"},
]

SEARCHES = [
    *("fox", "quick", "quick fox", "the", '"quick brown"', '"brown quick"', "quick -brown", "-brown", "jump", "jumps"),
    *("running", "cafe", "caf\u00e9", "CAF\u00c9", "naive", "two", "three", "nested", "dog", "dogs", "don't", "mail"),
    *("e-mail", "foo_bar", "foo", "bar", "3.14", "3", "x-ray", "it", "life", '"quick" fox', '"the quick"', "", "   "),
    *("-fox quick", 'fox -"brown fox"', 'Quick -"Brown"', '"quick', 'quick"', "quick,fox", "--fox", "- fox quick"),
    *('"two three"', '"one two" three', '"two" "three"', "quoted", "dashes", "tag", "5", "100", "user", "words"),
    *("generalizations", "generous", "organization", "relate", "conditions", "happy", "argue", "argued"),
]

_QUERIES: list[Case] = [
    *({"$text": {"$search": text}} for text in SEARCHES),
    *(
        {"$text": {"$search": text, "$caseSensitive": True}}
        for text in (
            "Quick",
            "The",
            "CAFE",
            "Jumping",
            '"Quick brown"',
            '"quick brown"',
            "fox -Quick",
            "fox -quick",
            "Fox",
        )
    ),
    *(
        {"$text": {"$search": text, "$diacriticSensitive": True}}
        for text in ("cafe", "caf\u00e9", "naive", '"na\u00efve"')
    ),
    *(
        {"$text": {"$search": text, "$language": language}}
        for text, language in (
            *(("the", "none"), ("running", "none"), ("run", "none"), ("running", "EN"), ("x", "bogus"), ("the", "fr")),
            *(("cheval", "fr"), ("montagne", "french"), ("mangeait", "fr"), ("haus", "de"), ("h\u00fcgel", "german")),
            *(("ni\u00f1a", "es"), ("cantar", "spanish"), ("corriendo", "es")),
        )
    ),
    {"$text": {"$search": "fox"}, "a": {"$gte": 0}},
    {"$and": [{"a": 1}, {"$text": {"$search": "fox two"}}]},
    {"$or": [{"$text": {"$search": "fox"}}]},
    {"$or": [{"$text": {"$search": "fox"}}, {"a": 1}]},
    {"$nor": [{"$text": {"$search": "fox"}}]},
    {"$and": [{"$text": {"$search": "fox"}}, {"$text": {"$search": "fox"}}]},
    {"$text": {"$search": "fox"}, "t": {"$near": [1, 1]}},
    {"$text": {"$search": "fox"}, "a": {"$bogus": 1}},
    {"t": {"$elemMatch": {"$text": {"$search": "fox"}}}},
    *(
        {"$text": argument}
        for argument in ("x", {}, {"$search": 5}, {"$search": "x", "$bogus": 1}, {"$search": "x", "b": 1})
    ),
    {"$text": {"$search": "x", "$caseSensitive": 1}},
]

QUERIES: dict[str, list[Case]] = {"$text": _QUERIES}

SCORE = {"$meta": "textScore"}
FINDS: list[Case] = [
    {"sort": {"_id": 1}, "projection": {"_id": 1}},
    {"sort": {"_id": 1}, "projection": {"_id": 1, "s": SCORE}},
    {"sort": {"s": SCORE, "_id": -1}, "projection": {"_id": 1, "x.s": SCORE}, "limit": 4},
]
"""What each of the queries is asked for with."""

_FOX = {"$text": {"$search": "quick fox"}}

OTHERS: list[Case] = [
    {"find": "texts", "filter": {}, "projection": {"s": SCORE}},
    {"find": "texts", "filter": {}, "sort": {"s": SCORE}},
    {"find": "texts", "filter": _FOX, "hint": "n"},
    {"find": "texts", "filter": _FOX, "hint": {"$natural": 1}},
    {"find": "texts", "filter": _FOX, "sort": {"$natural": 1}},
    {"count": "texts", "query": _FOX},
    {"distinct": "texts", "key": "_id", "query": _FOX},
    {"findAndModify": "texts", "query": _FOX, "sort": {"s": SCORE, "_id": 1}, "update": {"$set": {"m": 1}}},
    {"update": "texts", "updates": [{"q": _FOX, "u": {"$set": {"k": 1}}, "multi": True}]},
    {"update": "texts", "updates": [{"q": {"_id": 0}, "u": {"$set": {"t": "slow bear"}}}]},
    {"find": "texts", "filter": {"$text": {"$search": "quick bear"}}, "sort": {"_id": 1}, "projection": {"s": SCORE}},
    {"delete": "texts", "deletes": [{"q": {"$text": {"$search": "bear"}}, "limit": 0}]},
    *(
        {"aggregate": "texts", "pipeline": stages, "cursor": {}}
        for stages in (
            [{"$match": _FOX}, {"$project": {"s": SCORE}}, {"$sort": {"_id": 1}}],
            [{"$match": _FOX}, {"$sort": {"s": SCORE, "_id": 1}}, {"$limit": 3}, {"$addFields": {"s": SCORE}}],
            [{"$match": {**_FOX, "a": 1}}, {"$group": {"_id": SCORE, "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}],
            [{"$match": _FOX}, {"$count": "n"}],
            [{"$match": {"a": 1}}, {"$match": _FOX}],
            [{"$limit": 5}, {"$match": _FOX}],
            [{"$project": {"s": SCORE}}],
            [{"$sort": {"s": SCORE}}],
            [
                {"$match": {"_id": 1}},
                {
                    "$lookup": {
                        "from": "texts",
                        "as": "x",
                        "pipeline": [{"$match": _FOX}, {"$sort": {"_id": 1}}, {"$project": {"_id": 1, "s": SCORE}}],
                    }
                },
            ],
        )
    ),
]

OVER: list[Case] = [
    {"key": {"t": "text"}},
    {"key": {"$**": "text"}, "weights": {"t": 3}},
    {"key": {"t": "text", "u": "text"}, "weights": {"u": 10}, "default_language": "none"},
]
"""The indexes that the queries are asked over."""
