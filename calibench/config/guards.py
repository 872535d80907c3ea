"""Guards of constructors, read from their source: values that a class refuses are known before it is imported.

Two forms are understood, where they stand in the constructor itself and not under a condition:

    if not 0.0 <= lr: raise ValueError(f"Invalid learning rate: {lr}")      comparisons of arguments with constants
    self.gamma = non_negative("gamma", gamma)                               checks of `ground.arguments`
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from calibench.config.signatures import Found, constructors
from calibench.ground import arguments as checks

_COMPARED: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
# What is computed only sometimes.
_CONDITIONAL = (ast.IfExp, ast.BoolOp, ast.Lambda, ast.ListComp, ast.DictComp, ast.GeneratorExp)


class _Unseen(Exception):
    """An expression that is made of more than given values and constants."""


def refusal(found: Found, given: Mapping[str, Any]) -> str | None:
    """What a class says of the values that it is given, if it is certain to refuse one of them.

    Args:
        found: The class.
        given: Values by the names of arguments; text of numbers counts as these.
    """
    values = {name: _number(value) for name, value in given.items()}
    for constructor, reaching in constructors(found, set(given)):
        known = {name: values[name] for name in reaching}
        for statement in constructor.body:
            said = _refused(statement, known)
            if said is not None:
                return said
            known = {name: known[name] for name in known.keys() - _assigned(statement)}
    return None


def _number(value: Any) -> Any:
    for read in (int, float):
        if isinstance(value, str):
            with suppress(ValueError):
                value = read(value)
    return [_number(one) for one in value] if isinstance(value, list) else value


def _assigned(statement: ast.stmt) -> set[str]:
    """Names that a statement gives other values."""
    names = (node for node in ast.walk(statement) if isinstance(node, ast.Name))
    return {node.id for node in names if isinstance(node.ctx, ast.Store)}


def _refused(statement: ast.stmt, values: Mapping[str, Any]) -> str | None:
    if isinstance(statement, ast.If):
        first = statement.body[0]
        with suppress(_Unseen, TypeError):
            if isinstance(first, ast.Raise) and _value(statement.test, values):
                return _said(first, values)
        return None
    for call in _calls(statement):
        try:
            _check(call, values)
        except ValueError as error:
            return str(error)
    return None


def _said(raised: ast.Raise, values: Mapping[str, Any]) -> str:
    """The text of an error, as far as it is known."""
    text = raised.exc.args[0] if isinstance(raised.exc, ast.Call) and raised.exc.args else None
    parts = text.values if isinstance(text, ast.JoinedStr) else [text]
    try:
        return "".join(str(_value(part, values)) for part in parts if part is not None)
    except _Unseen:
        return "this value is refused"


def _calls(node: ast.AST) -> Iterator[ast.Call]:
    """The calls in a statement that are made whenever it is reached."""
    if isinstance(node, ast.Call):
        yield node
    for part in ast.iter_child_nodes(node):
        if not isinstance(part, (*_CONDITIONAL, ast.stmt)):
            yield from _calls(part)


def _check(call: ast.Call, values: Mapping[str, Any]) -> None:
    """Make a check of `ground.arguments`; raises its ValueError."""
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    check = getattr(checks, name, None)
    if getattr(check, "__module__", "") == checks.__name__ and not call.keywords:
        with suppress(_Unseen, TypeError):
            check(*[_value(argument, values) for argument in call.args])  # type: ignore[misc]


def _value(node: ast.expr, values: Mapping[str, Any]) -> Any:
    """The value of an expression of given values and constants; raises _Unseen for another."""
    if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "self":
        node = ast.Name(node.attr)  # of a dataclass
    match node:
        case ast.Constant():
            return node.value
        case ast.Name(id=name) if name in values:
            return values[name]
        case ast.FormattedValue(value=value):
            return _value(value, values)
        case ast.Subscript(value=value, slice=ast.Constant(value=place)):
            return _value(value, values)[place]
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _value(operand, values)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, values)
        case ast.Compare():
            sides = [_value(side, values) for side in (node.left, *node.comparators)]
            return all(map(_compared, node.ops, sides, sides[1:]))
    raise _Unseen


def _compared(op: ast.cmpop, left: Any, right: Any) -> bool:
    if type(op) not in _COMPARED or isinstance(left, str) != isinstance(right, str):
        raise _Unseen
    return _COMPARED[type(op)](left, right)
