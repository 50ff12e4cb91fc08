"""Values print as the classic shell prints them; expectations were taken from a real server's own `tojson`."""

from __future__ import annotations

import datetime
import hashlib

import bson
import pytest
from bson.binary import Binary
from bson.int64 import Int64

from tests.unit.js.conftest import Runtime

DOCUMENT = {
    "_id": bson.ObjectId("4f4221149a6777895a000000"),
    "t": bson.Timestamp(1, 2),
    "b": Binary(b"hi", 0),
    "u": Binary(bytes(range(16)), 4),
    "u3": Binary(bytes(range(16)), 3),
    "mn": bson.MinKey(),
    "r": bson.Regex("ab", "i"),
    "dbr": bson.DBRef("c", 1),
    "dec": bson.Decimal128("1.50"),
    "l": Int64(5),
    "big": Int64(9007199254740993),
    "dt": datetime.datetime(2020, 1, 1),
    "f": bson.Code("function(){return 1}"),
    "s": 'a"\\\n\té\u2028\x01/',
}
LONG = "x" * 80

STORED = [
    ("_id", 'ObjectId("4f4221149a6777895a000000")'),
    ("t", "Timestamp(1, 2)"),
    ("b", 'BinData(0,"aGk=")'),
    ("u", 'UUID("00010203-0405-0607-0809-0a0b0c0d0e0f")'),
    ("u3", 'BinData(3,"AAECAwQFBgcICQoLDA0ODw==")'),
    ("mn", '{ "$minKey" : 1 }'),
    ("r", "/ab/i"),
    ("dbr", 'DBRef("c", 1)'),
    ("dec", 'NumberDecimal("1.50")'),
    ("l", "NumberLong(5)"),
    ("big", 'NumberLong("9007199254740993")'),
    ("dt", 'ISODate("2020-01-01T00:00:00Z")'),
    ("f", "function(){return 1}"),
    ("s", '"a\\"\\\\\\n\\té\u2028\\u0001/"'),
]

WRITTEN = [
    ("null", "null"),
    ("undefined", "undefined"),
    ("-0", "0"),
    ("NaN", "NaN"),
    ("({})", "{ }"),
    ("[]", "[ ]"),
    ("[[]]", "[ [ ] ]"),
    ("[undefined, null]", "[ undefined, null ]"),
    ("({a:1,b:[1,2,{c:3}],d:{}})", '{ "a" : 1, "b" : [ 1, 2, { "c" : 3 } ], "d" : { } }'),
    (
        f"({{a:[1,{{c:3}}],d:{{}},x:'{LONG}'}})",
        '{\n\t"a" : [\n\t\t1,\n\t\t{\n\t\t\t"c" : 3\n\t\t}\n\t],\n\t"d" : {\n\t\t\n\t},\n\t"x" : "' + LONG + '"\n}',
    ),
    ("({a:function(){return 1}})", '{ "a" : function(){return 1} }'),
    ("new Error('q')", "Error: q"),
    ("NumberInt(5)", "NumberInt(5)"),
    ("NumberInt('7')", "NumberInt(7)"),
    ("NumberLong('-9223372036854775808')", 'NumberLong("-9223372036854775808")'),
    ("NumberLong(1,2,3)", 'NumberLong("8589934595")'),
    ("NumberDecimal(0.1)", 'NumberDecimal("0.100000000000000")'),
    ("NumberDecimal('1E+100')", 'NumberDecimal("1E+100")'),
    ("NumberDecimal('0.000000001')", 'NumberDecimal("1E-9")'),
    ("Timestamp()", "Timestamp(0, 0)"),
    ("UUID('00112233-4455-6677-8899-aabbccddeeff')", 'UUID("00112233-4455-6677-8899-aabbccddeeff")'),
    ("HexData(0,'6869')", 'BinData(0,"aGk=")'),
    ("MD5('00112233445566778899aabbccddeeff')", 'BinData(5,"ABEiM0RVZneImaq7zN3u/w==")'),
    ("ISODate('2020-01-01T10:20:30.123Z')", 'ISODate("2020-01-01T10:20:30.123Z")'),
    ("ISODate('2020-01-01T10:20:30+02:00')", 'ISODate("2020-01-01T08:20:30Z")'),
    ("ISODate('20200101')", 'ISODate("2020-01-01T00:00:00Z")'),
    ("new Date(253402300800000)", 'ISODate("10000-01-01T00:00:00Z")'),
    ("DBRef('c',1,'db')", 'DBRef("c", 1, "db")'),
    ("Code('x',{a:1})", '{ "code" : "x", "scope" : { "a" : 1 } }'),
    ("MaxKey", '{ "$maxKey" : 1 }'),
    ("/a/gi", "/a/gi"),
    ("({tojson:function(){return 'zz'}})", "zz"),
]


@pytest.mark.parametrize(("field", "text"), STORED)
def test_stored_values(runtime: Runtime, field: str, text: str) -> None:
    runtime.load(bson.encode(DOCUMENT))
    assert runtime.value(f"tojson(decode().{field})") == text


@pytest.mark.parametrize(("expression", "text"), WRITTEN)
def test_written_values(runtime: Runtime, expression: str, text: str) -> None:
    assert runtime.value(f"tojson({expression})") == text


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("tojson({a:1,b:[1,2,{c:3}],d:{}},'',true)", '{ "a" : 1, "b" : [ 1, 2, { "c" : 3 } ], "d" : {  } }'),
        ("tojsononeline({a:1,b:[1,2,{c:3}],d:{}})", '{  "a" : 1,  "b" : [ 1, 2, { "c" : 3 } ],  "d" : {   } }'),
        ("tojson([1,[2,3],{a:1}],'',false)", '[\n\t1,\n\t[\n\t\t2,\n\t\t3\n\t],\n\t{\n\t\t"a" : 1\n\t}\n]'),
        ("tojson({a:{b:1}},'',false)", '{\n\t"a" : {\n\t\t"b" : 1\n\t}\n}'),
    ],
)
def test_layouts(runtime: Runtime, expression: str, text: str) -> None:
    assert runtime.value(expression) == text


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("'' + ObjectId('4f4221149a6777895a000000')", "4f4221149a6777895a000000"),
        ("ObjectId('4f4221149a6777895a000000').str", "4f4221149a6777895a000000"),
        ("ObjectId() instanceof ObjectId", True),
        ("'' + NumberLong(5)", "5"),
        ("NumberLong(5) + 1", 6),
        ("NumberLong(5) == 5", True),
        ("NumberLong(5) === 5", False),
        ("typeof NumberLong(5)", "object"),
        ("Object.keys(NumberLong(5))", []),
        ("NumberLong('9007199254740993').top", 2097152),
        ("NumberLong(5).compare(NumberLong(6))", -1),
        ("JSON.stringify(NumberLong(5))", '{"$numberLong":"5"}'),
        ("JSON.stringify(ObjectId('4f4221149a6777895a000000'))", '{"$oid":"4f4221149a6777895a000000"}'),
        ("BinData(0,'aGk=').hex()", "6869"),
        ("MinKey() === MinKey", True),
        ("hex_md5('abc')", "900150983cd24fb0d6963f7d28e17f72"),
        ("hex_md5('ü'.repeat(100))", hashlib.md5(("ü" * 100).encode()).hexdigest()),
        ("Array.sum([1,2,3])", 6),
        ("Object.bsonsize({a:1})", 16),
        ("(5).zeroPad(3)", "005"),
        ("(() => { var names = []; for (var i in [1]) names.push(i); return names })()", ["0"]),
    ],
)
def test_behaviour_of_values(runtime: Runtime, expression: str, value: object) -> None:
    assert runtime.value(expression) == value


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("ObjectId('zz')", "invalid object id: length"),
        ("NumberLong('abc')", "could not convert string to long long"),
        ("NumberLong(5.7)", "number passed to NumberLong must be representable as an int64_t"),
        ("NumberDecimal('abc')", "Input is not a valid Decimal128 value."),
        ("BinData(0,'a')", "invalid base64"),
        ("BinData(300,'aGk=')", "BinData subtype must be a Number between 0 and 255 inclusive"),
        ("Timestamp('a',1)", "Timestamp time (seconds) must be a number"),
        ("ISODate('zzz')", "invalid ISO date: zzz"),
    ],
)
def test_wrong_arguments_are_refused(runtime: Runtime, expression: str, message: str) -> None:
    assert runtime.value(expression) == f"EXC Error: {message}"
