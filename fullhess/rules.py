"""Rules of single settings: what is allowed, and the message for what is not."""

from __future__ import annotations

import difflib
import math
import numbers
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

__all__ = [
    "MAX_INTEGER",
    "Choice",
    "Directions",
    "Flag",
    "Groups",
    "Integer",
    "ParameterError",
    "Real",
    "Rule",
]

MAX_INTEGER = 2**63 - 1


class ParameterError(ValueError):
    """A setting that is unknown, of the wrong type, out of range or in conflict."""


class Rule(Protocol):
    @property
    def expected(self) -> str: ...

    def read(self, name: str, value: Any) -> Any: ...


def _refuse(name: str, expected: str, value: Any, advice: str) -> ParameterError:
    return ParameterError(f"{name}: expected {expected}, got {value!r}; {advice}")


@dataclass(frozen=True)
class Choice:
    options: tuple[str, ...]

    @property
    def expected(self) -> str:
        return " or ".join(repr(option) for option in self.options)

    def read(self, name: str, value: Any) -> str:
        if isinstance(value, str) and value in self.options:
            return str(value)
        close = difflib.get_close_matches(str(value), self.options, n=1)
        advice = f"did you mean {close[0]!r}?" if close else "pass one of these names"
        raise _refuse(name, f"one of {self.expected}", value, advice)


@dataclass(frozen=True)
class Flag:
    expected: str = "True or False"

    def read(self, name: str, value: Any) -> bool:
        if isinstance(value, (bool, np.bool_)):
            return bool(value)
        raise _refuse(name, self.expected, value, "write True or False without quotes")


@dataclass(frozen=True)
class Integer:
    low: int
    high: int = MAX_INTEGER
    zero_means: str = ""  # zero is allowed beside [low, high], and means this
    optional: bool = False

    @property
    def expected(self) -> str:
        text = f"at least {self.low}" if self.high == MAX_INTEGER else f"{self.low} to {self.high}"
        if self.zero_means:
            text += f", or 0 ({self.zero_means})"
        return text + (", or None" if self.optional else "")

    def read(self, name: str, value: Any) -> int | None:
        if value is None and self.optional:
            return None
        expected = f"an integer, {self.expected}"
        if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Integral):
            raise _refuse(name, expected, value, _integer_advice(value))
        number = int(value)
        if self.low <= number <= self.high or (number == 0 and self.zero_means):
            return number
        raise _refuse(name, expected, value, f"choose {name} inside these limits")


def _integer_advice(value: Any) -> str:
    if isinstance(value, (bool, np.bool_)):
        return "write a number instead of True or False"
    if isinstance(value, numbers.Real) and _as_float(value).is_integer():
        return f"write {int(_as_float(value))}"
    if isinstance(value, str):
        return "pass the number without quotes"
    return "pass an int"


@dataclass(frozen=True)
class Real:
    low: float
    high: float = math.inf
    open_low: bool = False  # low itself is refused

    @property
    def expected(self) -> str:
        if math.isinf(self.high):
            return f"{'above' if self.open_low else 'at least'} {self.low:g}"
        return f"in {'(' if self.open_low else '['}{self.low:g}, {self.high:g}]"

    def read(self, name: str, value: Any) -> float:
        expected = f"a finite number {self.expected}"
        if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
            quoted = isinstance(value, str)
            advice = "pass the number without quotes" if quoted else "pass a float"
            raise _refuse(name, expected, value, advice)
        number = _as_float(value)
        if not math.isfinite(number):
            advice = "NaN and infinity have no meaning here, and a float holds 1.8e308 at most"
            raise _refuse(name, expected, value, advice)
        if number < self.low or number > self.high or (self.open_low and number == self.low):
            raise _refuse(name, expected, value, f"choose {name} inside these limits")
        return number


@dataclass(frozen=True)
class Directions:
    """One of -1, 0, 1 for every feature."""

    expected: str = "-1, 0 or 1 for every feature, or None"

    def read(self, name: str, value: Any) -> tuple[int, ...] | None:
        if value is None:
            return None
        given = _listed(value)
        if given is None or not all(isinstance(s, numbers.Real) and s in (-1, 0, 1) for s in given):
            raise _refuse(name, self.expected, value, "write for example (1, 0, -1)")
        signs = tuple(int(sign) for sign in given)
        return signs if any(signs) else None


@dataclass(frozen=True)
class Groups:
    """Sets of feature numbers."""

    expected: str = "lists of feature numbers, or None"

    def read(self, name: str, value: Any) -> tuple[tuple[int, ...], ...] | None:
        if value is None:
            return None
        given = _listed(value)
        groups = [_listed(group) for group in given or ()]
        if given is None or any(not _is_group(group) for group in groups):
            raise _refuse(name, self.expected, value, "write for example [[0, 1], [2, 3, 4]]")
        return tuple(tuple(sorted({int(j) for j in group or ()})) for group in groups) or None


def _is_group(group: tuple[Any, ...] | None) -> bool:
    """Whether this is a set of feature numbers, not empty."""
    return bool(group) and all(
        isinstance(j, (int, np.integer)) and not isinstance(j, bool) and j >= 0 for j in group or ()
    )


def _listed(value: Any) -> tuple[Any, ...] | None:
    """The entries of a list, tuple, set or array; None of anything else."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    return tuple(value) if isinstance(value, (list, tuple, set, frozenset)) else None


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:  # an int beyond 1.8e308
        return math.inf
