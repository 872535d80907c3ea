"""Values of expressions in the source, where they are made of given values and constants only."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

_COMPARED: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_COMPUTED: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
}
_OTHERS_THAN_TEXT = ("true", "false", "yes", "no", "on", "off", "null", "none", "~", "")


class Unseen(Exception):
    """An expression that is made of more than given values and constants."""


def read(value: Any) -> Any:
    """A given value; text of a number as the number, and `Unseen` for text that may stand for a truth value."""
    if isinstance(value, list):
        return [read(one) for one in value]
    if isinstance(value, str):
        for kind in (int, float):
            with suppress(ValueError):
                return kind(value)
        return Unseen if value.lower() in _OTHERS_THAN_TEXT else value
    return value


def literal(node: ast.expr | None) -> Any:
    """A constant as it is written; `Unseen` for another expression."""
    try:
        return ast.literal_eval(node) if node is not None else Unseen
    except ValueError:
        return Unseen


def value_of(node: ast.expr, values: Mapping[str, Any]) -> Any:
    """The value of an expression, given values of names, of which some may be `Unseen`; raises it where that is all."""
    if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "self":
        of_class = f"self.{node.attr}"
        node = ast.Name(of_class if of_class in values else node.attr)  # a dataclass's field
    match node:
        case ast.Constant():
            return node.value
        case ast.Name(id=name) if values.get(name, Unseen) is not Unseen:
            return values[name]
        case ast.FormattedValue(value=value):
            return value_of(value, values)
        case ast.Subscript(value=value, slice=ast.Constant(value=place)):
            return value_of(value, values)[place]
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not is_true(operand, values)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -value_of(operand, values)
    return _computed(node, values)


def _computed(node: ast.expr, values: Mapping[str, Any]) -> Any:
    """The value of two sides or more."""
    match node:
        case ast.BinOp(op=op) if type(op) in _COMPUTED:
            sides = [value_of(side, values) for side in (node.left, node.right)]
            return _COMPUTED[type(op)](*sides)
        case ast.BoolOp(op=op, values=parts):
            return _joined(isinstance(op, ast.Or), parts, values)
        case ast.Compare():
            sides = [value_of(side, values) for side in (node.left, *node.comparators)]
            return all(map(_compared, node.ops, sides, sides[1:]))
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return value_of(body if is_true(test, values) else orelse, values)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return [one for part in parts for one in _elements(part, values)]
    raise Unseen


def _elements(node: ast.expr, values: Mapping[str, Any]) -> Sequence[Any]:
    """What an element of a list stands for: itself, or behind a star several."""
    if isinstance(node, ast.Starred):
        return list(value_of(node.value, values))
    return [value_of(node, values)]


def is_true(node: ast.expr, values: Mapping[str, Any]) -> bool:
    """Whether a condition holds; raises `Unseen` where that is not certain."""
    value = value_of(node, values)
    if isinstance(value, str):  # what the parser makes of it
        raise Unseen
    return bool(value)


def _joined(settles: bool, parts: Sequence[ast.expr], values: Mapping[str, Any]) -> bool:
    """`or`, which a true part settles, or `and`, which a false one does."""
    known = list(_known(parts, values))
    if settles in known:
        return settles
    if len(known) < len(parts):
        raise Unseen
    return not settles


def _known(parts: Sequence[ast.expr], values: Mapping[str, Any]) -> Iterator[bool]:
    for part in parts:
        with suppress(Unseen, TypeError):
            yield is_true(part, values)


def _compared(op: ast.cmpop, left: Any, right: Any) -> bool:
    of_text = isinstance(left, str) != isinstance(right, str)
    equality = isinstance(op, ast.Eq | ast.NotEq) and str in map(type, map(read, (left, right)))
    if type(op) not in _COMPARED or (of_text and not equality):
        raise Unseen
    return _COMPARED[type(op)](left, right)
