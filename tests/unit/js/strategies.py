"""Hypothesis strategies for documents of every BSON type that the runtime keeps exactly."""

from __future__ import annotations

import bson
from bson.binary import Binary
from bson.code import Code
from bson.datetime_ms import DatetimeMS
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.max_key import MaxKey
from bson.min_key import MinKey
from bson.regex import Regex
from bson.timestamp import Timestamp
from hypothesis import strategies as st

names = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), min_size=1, max_size=40).filter(
    lambda name: not name.isdigit() and not name.startswith("$")
)
text = st.text(st.characters(exclude_categories=("Cs",)), max_size=40)
decimals = st.one_of(
    st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**9), max_value=10**9).map(Decimal128),
    st.sampled_from(
        ["0", "1", "1.0", "1.5", "1E+100", "-1E-100", "NaN", "Infinity", "-Infinity", "9007199254740993"]
    ).map(Decimal128),
)
numbers = st.one_of(
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**63), 2**63 - 1).map(Int64),
    st.sampled_from([2**53, 2**53 + 1, -(2**53) - 1, 2**62, 0, 1, 5]).map(Int64),
    st.floats(),
    st.sampled_from([0.0, -0.0, 1.0, 1.5, float(2**53), float(2**62), 1e300]),
    decimals,
)
scalars = st.one_of(
    numbers,
    text,
    st.booleans(),
    st.none(),
    st.binary(min_size=12, max_size=12).map(bson.ObjectId),
    st.integers(-8_640_000_000_000_000, 8_640_000_000_000_000).map(DatetimeMS),
    st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1)).map(lambda pair: Timestamp(*pair)),
    st.tuples(st.binary(max_size=20), st.sampled_from([0, 5, 128])).map(lambda pair: Binary(*pair)),
    st.binary(min_size=16, max_size=16).map(lambda raw: Binary(raw, 4)),
    st.sampled_from([MinKey(), MaxKey(), Regex("ab+", "i"), Code("function(){ return 1 }"), Regex("a/b", "")]),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(names, inner, max_size=4)),
    max_leaves=12,
)
documents = st.dictionaries(names, values, max_size=6)
