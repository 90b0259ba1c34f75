"""Numbers as people write them: the one formatter of texts, pictures and messages."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

_PLAIN = (1e-6, 1e15)  # sizes that are written without a power of ten


def shown_number(value: float, digits: int = 6) -> str:
    """A number to so many significant digits, with marks between thousands and without a power of ten where it can be.

    Examples
    --------
    >>> shown_number(1473.2, 3), shown_number(0.000012345, 3), shown_number(1234567.5)
    ('1,470', '0.0000123', '1,234,570')
    >>> shown_number(-0.0), shown_number(2.5e-9), shown_number(float("inf"))
    ('0', '2.5e-09', 'infinity')
    """
    value, digits = float(value) + 0.0, max(1, digits)
    if value in (float("inf"), -float("inf")):
        return "infinity" if value > 0 else "-infinity"
    short = f"{value:.{digits - 1}e}"
    if value == value and _PLAIN[0] <= abs(float(short)) < _PLAIN[1]:
        return f"{Decimal(short).normalize():,f}"
    return f"{value:.{digits}g}"


def signed_number(value: float, digits: int) -> str:
    """The same with a plus sign where it is not negative.

    Examples
    --------
    >>> signed_number(1473.2, 3), signed_number(-0.5, 3), signed_number(0.0, 3)
    ('+1,470', '-0.5', '+0')
    """
    return _signed(shown_number(value, digits))


def _signed(text: str) -> str:
    return text if text.startswith("-") else f"+{text}"


def shown_apart(values: Sequence[float], digits: int = 6) -> list[str]:
    """Numbers with as many digits as show which of them differ, and at least `digits`.

    Examples
    --------
    >>> shown_apart([0.5, 0.5 + 1e-8]), shown_apart([2.0, 2.0]), shown_apart([3.391, 3.39], 3)
    (['0.5', '0.50000001'], ['2', '2'], ['3.391', '3.39'])
    """
    for more in range(digits, 18):
        texts = [shown_number(value, more) for value in values]
        if len(set(texts)) >= len(set(map(float, values))):
            break
    return texts


def short_number(value: float, digits: int | None = None) -> str:
    """A threshold or a weight: to so many digits; by default as it is where six do, else to three.

    Examples
    --------
    >>> short_number(52348.5), short_number(0.12345678), short_number(0.12345678, 4)
    ('52,348.5', '0.123', '0.1235')
    """
    if digits is not None:
        return shown_number(value, digits)
    text = shown_number(value)
    return text if float(text.replace(",", "")) == value else shown_number(value, 3)


def signed_short(value: float, digits: int | None = None) -> str:
    """The same with a plus sign where it is not negative.

    Examples
    --------
    >>> signed_short(52348.5), signed_short(-2.0)
    ('+52,348.5', '-2')
    """
    return _signed(short_number(value, digits))
