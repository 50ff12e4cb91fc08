"""Transcendental functions of decimals.

They are computed with 60 digits. The reference computes with binary numbers of 113 bits, slightly less than the 34
digits of a decimal. So arguments, reduced arguments and results are rounded to such numbers here too, in the steps that
determine its last digits. Sines, cosines, tangents, exponentials and most inverse functions agree in all digits; where
the reference's own steps are inexact (`$pow`, `$atanh`, `$acos` beyond a half) the last digit may differ.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from functools import lru_cache

from docstore.query.value.arithmetic import DECIMAL_CONTEXT

Function = Callable[[Decimal], Decimal]

DIGITS = 34
_BITS = 113
_PRECISION = 60
_WORK = Context(prec=_PRECISION, rounding=ROUND_HALF_EVEN, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])
_ONE = Decimal(1)
_HALF = Decimal("0.5")
_MIN_POSITIVE = Decimal((0, (0,), -6176))
_OVERFLOWS = 15_000
_MIN_EXPONENT = -4900
"""Decimal exponents below it are outside the range of the binary numbers."""

_TINY = Decimal("1E-25")
"""Below it the first two terms of a series suffice."""


def rounded(exact: Decimal) -> Decimal:
    """Round to 34 digits, keeping trailing zeros."""
    decimal = DECIMAL_CONTEXT.plus(exact)
    if not decimal.is_finite() or decimal.is_zero():
        return decimal
    exponent = max(decimal.adjusted() - DIGITS + 1, -6176)
    return decimal.quantize(Decimal((0, (1,), exponent)), context=DECIMAL_CONTEXT)


def _result(number: Decimal) -> Decimal:
    """Return a binary number as a decimal: a whole one without decimal places, any other with 34 digits."""
    is_integral = (
        number.is_finite()
        and not number.is_zero()
        and number.adjusted() < DIGITS
        and number == number.to_integral_value()
    )
    return number.to_integral_value() if is_integral else rounded(number)


def remainder(number: Decimal, divisor: Decimal) -> Decimal:
    """Return the exact remainder of a truncating division, for quotients of any size.

    It has the number's sign and the smaller of the two exponents. The divisor is not zero.
    """
    if not number.is_finite() or divisor.is_nan():
        return Decimal("NaN")
    if divisor.is_infinite():
        return number
    scale, unit = int(number.as_tuple().exponent), int(divisor.as_tuple().exponent)
    exponent = min(scale, unit)
    scaled_divisor = abs(int(divisor.scaleb(-unit, _WORK))) * 10 ** (unit - exponent)
    residue = abs(int(number.scaleb(-scale, _WORK))) * pow(10, scale - exponent, scaled_divisor) % scaled_divisor
    return _WORK.copy_sign(Decimal(residue).scaleb(exponent, _WORK), number)


def _binary(x: Decimal, *, cut: bool = False) -> Decimal:
    """Return the nearest binary number of 113 bits, or with `cut` the next one towards zero."""
    if not x.is_finite() or x.is_zero():
        return x
    exact = Fraction(x)
    size = abs(exact.numerator).bit_length() - exact.denominator.bit_length()
    if Fraction(2) ** size > abs(exact):
        size -= 1
    unit = Fraction(2) ** (size - _BITS + 1)
    nearest = (int(exact / unit) if cut else round(exact / unit)) * unit
    work = Context(prec=_PRECISION + 20 + max(0, x.adjusted()), Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])
    return work.divide(Decimal(nearest.numerator), Decimal(nearest.denominator))


@lru_cache(maxsize=8)
def _pi(precision: int) -> Decimal:
    """Return pi by the arithmetic-geometric mean, which doubles the digits with each step."""
    work = Context(prec=precision + 10, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])
    a, b, t, p = _ONE, work.divide(_ONE, work.sqrt(Decimal(2))), Decimal("0.25"), _ONE
    while True:
        mean = work.divide(work.add(a, b), Decimal(2))
        if abs(mean - a).adjusted() < -precision // 2 - 2:
            return work.divide(work.power(work.add(a, b), 2), work.multiply(Decimal(4), t))
        b = work.sqrt(work.multiply(a, b))
        t = work.subtract(t, work.multiply(p, work.power(work.subtract(a, mean), 2)))
        a, p = mean, work.add(p, p)


_QUARTER = _WORK.divide(_pi(_PRECISION), Decimal(2))
_BINARY_QUARTER = _binary(_QUARTER)


def _series(term: Decimal, step: Callable[[Decimal, int], Decimal]) -> Decimal:
    """Return the sum of a series, each term computed from the one before, until terms are negligible."""
    total = term
    number = 1
    while True:
        term = step(term, number)
        following = _WORK.add(total, term)
        if following == total:
            return total
        total = following
        number += 1


def _reduced(x: Decimal) -> tuple[Decimal, int]:
    """Return (rest, quadrant): the angle modulo a quarter turn; the rest is at most an eighth of a turn."""
    digits = max(0, x.adjusted()) + _PRECISION + 10
    work = Context(prec=digits + 5, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])
    quarter = work.divide(_pi(digits), Decimal(2))
    turns = work.divide(x, quarter).to_integral_value(ROUND_HALF_EVEN)
    return _WORK.plus(work.subtract(x, work.multiply(turns, quarter))), int(turns) % 4


def _sine_series(x: Decimal) -> Decimal:
    square = _WORK.multiply(x, x)
    return _series(
        x, lambda term, n: _WORK.divide(_WORK.multiply(term.copy_negate(), square), Decimal(2 * n * (2 * n + 1)))
    )


def _cosine_series(x: Decimal) -> Decimal:
    square = _WORK.multiply(x, x)
    return _series(
        _ONE, lambda term, n: _WORK.divide(_WORK.multiply(term.copy_negate(), square), Decimal(2 * n * (2 * n - 1)))
    )


def _angle(x: Decimal) -> tuple[Decimal, int]:
    """Return `_reduced` in binary: the fraction of a quarter turn is truncated, then multiplied out and rounded."""
    angle, quadrant = _reduced(x)
    part = _binary(_WORK.divide(angle, _QUARTER), cut=True)
    return _binary(_WORK.multiply(part, _BINARY_QUARTER)), quadrant


def _sine(x: Decimal) -> Decimal:
    angle, quadrant = _angle(x)
    sine_value = _cosine_series(angle) if quadrant % 2 else _sine_series(angle)
    return sine_value.copy_negate() if quadrant > 1 else sine_value


def _cosine(x: Decimal) -> Decimal:
    angle, quadrant = _angle(x)
    cosine_value = _sine_series(angle) if quadrant % 2 else _cosine_series(angle)
    return cosine_value.copy_negate() if quadrant in (1, 2) else cosine_value


def _tangent(x: Decimal) -> Decimal:
    angle, quadrant = _angle(x)
    tangent_value = _WORK.divide(_sine_series(angle), _cosine_series(angle))
    return _WORK.divide(_ONE.copy_negate(), _binary(tangent_value)) if quadrant % 2 else tangent_value


def _logarithm(x: Decimal) -> Decimal:
    """Return the natural logarithm of the nearest binary number; near one, the excess over one is rounded instead."""
    if _HALF <= x < 1 + _HALF:
        return _WORK.ln(_WORK.add(_ONE, _binary(_WORK.subtract(x, _ONE))))
    return _WORK.ln(_binary(x))


def _arctangent(x: Decimal) -> Decimal:
    if x < 0:
        return _arctangent(x.copy_negate()).copy_negate()
    if x > 1:
        return _WORK.subtract(_QUARTER, _arctangent(_WORK.divide(_ONE, x)))
    halvings = 0
    while x > Decimal("0.05"):
        root = _WORK.sqrt(_WORK.add(_ONE, _WORK.multiply(x, x)))
        x = _WORK.divide(x, _WORK.add(_ONE, root))
        halvings += 1
    square = _WORK.multiply(x, x)
    power, total, number = x, x, 1
    while True:
        power = _WORK.multiply(power.copy_negate(), square)
        following = _WORK.add(total, _WORK.divide(power, Decimal(2 * number + 1)))
        if following == total:
            return _WORK.multiply(total, Decimal(2**halvings))
        total = following
        number += 1


def _arcsine(x: Decimal) -> Decimal:
    if abs(x) == 1:
        return _QUARTER.copy_sign(x)
    complement = _WORK.multiply(_WORK.subtract(_ONE, x), _WORK.add(_ONE, x))
    return _arctangent(_WORK.divide(x, _WORK.sqrt(complement)))


def _arccosine(x: Decimal) -> Decimal:
    if x == 1:
        return _MIN_POSITIVE
    if x > _HALF:
        complement = _WORK.multiply(_WORK.subtract(_ONE, x), _WORK.add(_ONE, x))
        return _arctangent(_WORK.divide(_WORK.sqrt(complement), x))
    return _WORK.subtract(_QUARTER, _arcsine(_binary(x)))


def _hyperbolic_sine(x: Decimal) -> Decimal:
    if abs(x) > _OVERFLOWS:
        return Decimal("Infinity").copy_sign(x)
    if abs(x) < Decimal("0.5"):
        square = _WORK.multiply(x, x)
        return _series(x, lambda term, n: _WORK.divide(_WORK.multiply(term, square), Decimal(2 * n * (2 * n + 1))))
    return _WORK.divide(_WORK.subtract(_WORK.exp(x), _WORK.exp(x.copy_negate())), Decimal(2))


def _hyperbolic_cosine(x: Decimal) -> Decimal:
    if abs(x) > _OVERFLOWS:
        return Decimal("Infinity")
    return _WORK.divide(_WORK.add(_WORK.exp(x), _WORK.exp(x.copy_negate())), Decimal(2))


def exponential(x: Decimal) -> Decimal:
    """Return the exponential of the next binary number towards zero, corrected for the rest."""
    if not x.is_finite() or x.is_zero() or abs(x) > _OVERFLOWS:
        return DECIMAL_CONTEXT.exp(x)
    near = _binary(x, cut=True)
    correction = _WORK.add(_ONE, _WORK.subtract(x, near))
    return _result(_binary(_WORK.multiply(_binary(_WORK.exp(near)), correction)))


def _large_sine(x: Decimal) -> Decimal:
    """Return the hyperbolic sine beyond one, computed in decimals throughout."""
    power = exponential(x.copy_abs())
    other = DECIMAL_CONTEXT.multiply(_HALF, DECIMAL_CONTEXT.divide(_ONE, power))
    return DECIMAL_CONTEXT.fma(_HALF, power, other.copy_negate()).copy_sign(x)


def _large_cosine(x: Decimal) -> Decimal:
    power = exponential(x.copy_abs())
    return DECIMAL_CONTEXT.fma(_HALF, power, DECIMAL_CONTEXT.divide(_HALF, power))


def _hyperbolic_tangent(x: Decimal) -> Decimal:
    return _WORK.divide(_hyperbolic_sine(x), _hyperbolic_cosine(x))


def _area_sine(x: Decimal) -> Decimal:
    if x < 0:
        return _area_sine(x.copy_negate()).copy_negate()
    if x < _TINY:
        return _WORK.subtract(x, _WORK.divide(_WORK.power(x, 3), Decimal(6)))
    # Small arguments lose digits in the logarithm's argument: start with more.
    work = Context(prec=_PRECISION + max(0, -x.adjusted()) * 2, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])
    return work.ln(work.add(x, work.sqrt(work.add(work.multiply(x, x), _ONE))))


def _area_cosine(x: Decimal) -> Decimal:
    if x == 1:
        return Decimal(0)
    work = Context(prec=2 * _PRECISION, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])
    return work.ln(work.add(x, work.sqrt(work.multiply(work.subtract(x, _ONE), work.add(x, _ONE)))))


def _area_tangent(x: Decimal) -> Decimal:
    """Return half the logarithm of (1 + x) / (1 - x)."""
    size = x.copy_abs()
    if size == 1:
        return Decimal("Infinity").copy_sign(x)
    if size < _TINY:
        return _WORK.add(x, _WORK.divide(_WORK.power(x, 3), Decimal(3)))
    ratio = _binary(_WORK.divide(_WORK.add(size, size), _WORK.subtract(_ONE, size)))
    work = Context(prec=_PRECISION - x.adjusted() * 2, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])
    return work.divide(_binary(work.ln(work.add(_ONE, ratio))), Decimal(2)).copy_sign(x)


def _zero_below(x: Decimal) -> Decimal:
    """Return the reference's zero for a zero: its exponent is forty lower."""
    return x.scaleb(-40, DECIMAL_CONTEXT)


def _function(exact: Function, of_zero: Function | None, of_infinity: str = "") -> Function:
    """Return a function of any decimal: rounded, with special results for zero and infinity."""
    return _finished(lambda x: _binary(exact(x)), exact, of_zero, of_infinity)


def _through_binary(exact: Function, of_zero: Function | None, of_infinity: str = "") -> Function:
    """Return a function whose argument is first rounded to a binary number."""
    return _finished(lambda x: _binary(exact(_binary(x))), exact, of_zero, of_infinity)


def _finished(finite: Function, exact: Function, of_zero: Function | None, of_infinity: str) -> Function:
    def calculate(x: Decimal) -> Decimal:
        if x.is_nan():
            return x
        if x.is_infinite():
            return rounded(exact(x)) if not of_infinity else Decimal(of_infinity)
        if x.is_zero() and of_zero is not None:
            return of_zero(x)
        return _result(finite(x))

    return calculate


def _odd(finite: Function) -> Function:
    """Return an odd function that is infinite at infinity."""
    return lambda x: x if x.is_infinite() else finite(x)


def _beyond_one(small: Function, large: Function) -> Function:
    return lambda x: rounded(large(x)) if x.is_finite() and abs(x) > 1 else small(x)


def _bounded_tangent(x: Decimal) -> Decimal:
    """Return the hyperbolic tangent."""
    if x.is_nan() or x.is_zero():
        return x
    if abs(x) > 100:
        return _ONE.copy_sign(x)
    return _result(_binary(_hyperbolic_tangent(_binary(x))))


def _atan(x: Decimal) -> Decimal:
    if x.is_infinite():
        return _QUARTER.copy_sign(x)
    return _arctangent(x)


def _vanishing(function: Function, of_least: Function = rounded) -> Function:
    """Return the function with special results for numbers too small for the binary format."""

    def calculate(x: Decimal) -> Decimal:
        if x.is_finite() and not x.is_zero() and x.adjusted() < _MIN_EXPONENT:
            return of_least(x)
        return function(x)

    return calculate


def _constant_one(x: Decimal) -> Decimal:
    return rounded(_ONE)


logarithm = _function(_logarithm, lambda x: Decimal("-Infinity"), "Infinity")
sine = _vanishing(_function(_sine, lambda x: x))
cosine = _vanishing(_function(_cosine, _constant_one), _constant_one)
tangent = _vanishing(_function(_tangent, _zero_below))
arcsine = _vanishing(_through_binary(_arcsine, _zero_below))
arccosine = _function(_arccosine, None)
arctangent = _vanishing(_through_binary(_atan, lambda x: x))
hyperbolic_sine = _vanishing(_odd(_beyond_one(_through_binary(_hyperbolic_sine, _zero_below), _large_sine)))
hyperbolic_cosine = _vanishing(
    _beyond_one(_through_binary(_hyperbolic_cosine, _constant_one, "Infinity"), _large_cosine), _constant_one
)
hyperbolic_tangent = _vanishing(_bounded_tangent)
area_sine = _vanishing(
    _odd(_through_binary(_area_sine, lambda x: _MIN_POSITIVE.copy_sign(x))), lambda x: Decimal(0).copy_sign(x)
)
area_cosine = _through_binary(_area_cosine, None, "Infinity")
area_tangent = _function(_area_tangent, lambda x: _MIN_POSITIVE.copy_sign(x))


_BINARY_LOG_E = _binary(_WORK.divide(_ONE, _WORK.ln(Decimal(10))))


common_logarithm = _function(
    lambda x: _WORK.multiply(_binary(_logarithm(x)), _BINARY_LOG_E), lambda x: Decimal("-Infinity"), "Infinity"
)
"""The decimal logarithm."""


def arctangent_of(y: Decimal, x: Decimal) -> Decimal:
    """Return the angle of the point (x, y)."""
    if y.is_nan() or x.is_nan():
        return Decimal("NaN")
    pi = _pi(_PRECISION)
    backwards = x.is_signed()
    if y.is_zero():
        return rounded(pi).copy_sign(y) if backwards else _MIN_POSITIVE.copy_sign(y)
    if x.is_infinite() and y.is_infinite():
        return rounded(_WORK.multiply(pi, Decimal("0.75" if backwards else "0.25"))).copy_sign(y)
    if x.is_zero() or y.is_infinite():
        return rounded(_WORK.divide(pi, Decimal(2))).copy_sign(y)
    if x.is_infinite():
        return rounded(pi).copy_sign(y) if backwards else _MIN_POSITIVE.copy_sign(y)
    angle = _arctangent(_binary(rounded(_WORK.divide(y, x).copy_abs())))
    return rounded(_binary(_WORK.subtract(pi, angle) if backwards else angle)).copy_sign(y)
