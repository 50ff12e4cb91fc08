"""Functions of decimals: the last digits of a real server, whose results these are."""

from __future__ import annotations

import pytest
from bson.decimal128 import Decimal128

from docstore.aggregation.expressions.model import Scope
from docstore.aggregation.expressions.parse import parse_expression
from docstore.bson.walk import EMPTY_DOCUMENT
from docstore.errors import Code, CommandError
from tests.unit.query.raw import content, value

CASES = [
    ("$sin", "2.5", "0.5984721441039564940518547021861622"),
    ("$sin", "-7.25", "-0.8230808790115054584216711834120565"),
    ("$sin", "1E-6000", "1.000000000000000000000000000000000E-6000"),
    ("$cos", "2.5", "-0.8011436155469337148335027904673517"),
    ("$cos", "0", "1.000000000000000000000000000000000"),
    ("$cos", "1E-20", "1"),
    ("$tan", "2.5", "-0.7470222972386602793553526878252744"),
    ("$tan", "1.1", "1.964759657248651950930922781779379"),
    ("$exp", "2.5", "12.18249396070347343807017595116797"),
    ("$exp", "1.1", "3.004166023946433112058407953588672"),
    ("$exp", "0.5", "1.648721270700128146848650787814164"),
    ("$sinh", "2.5", "6.050204481039787321450323638350405"),
    ("$sinh", "0.3", "0.3045202934471426189584352670050952"),
    ("$cosh", "2.5", "6.132289479663686116619852312817565"),
    ("$cosh", "-0.3", "1.045338514128860485025309046322912"),
    ("$tanh", "1.3", "0.8617231593133063642949537159367518"),
    ("$asin", "0.3", "0.3046926540153975079720029612275292"),
    ("$acos", "0.3", "1.266103672779499111259318730412222"),
    ("$atan", "2.5", "1.190289949682531732927733774829318"),
    ("$asinh", "2.5", "1.647231146371095710624858610443620"),
    ("$acosh", "2.5", "1.566799236972411078664056862580484"),
    ("$atanh", "0.5", "0.5493061443340548456976226184612628"),
    ("$ln", "2.5", "0.9162907318741550651835272117680110"),
    ("$ln", "0.7", "-0.3566749439387323789126387112411845"),
    ("$log10", "2.5", "0.3979400086720376095725222105510140"),
    ("$log10", "1E+3", "3"),
    ("$log10", "1E+10", "10.00000000000000000000000000000000"),
]


def calculated(operator: str, argument: object) -> object:
    return content(parse_expression(value({operator: argument})).evaluate(Scope(EMPTY_DOCUMENT)))


@pytest.mark.parametrize(("operator", "argument", "expected"), CASES)
def test_last_digits(operator: str, argument: str, expected: str) -> None:
    assert str(calculated(operator, Decimal128(argument))) == expected


@pytest.mark.parametrize("number", ["1E-308", "-1E-400", "1E+400"])
def test_what_no_double_holds_is_not_converted(number: str) -> None:
    for argument in (Decimal128(number), number):
        with pytest.raises(CommandError) as refused:
            calculated("$toDouble", argument)
        assert refused.value.code == Code.ConversionFailure
