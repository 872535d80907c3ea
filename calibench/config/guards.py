"""Guards of constructors, read from their source: values that a class refuses are known before it is imported.

Understood is what a constructor does for certain, given these values:

    if not 0.0 <= lr: raise ValueError(f"Invalid learning rate: {lr}")      comparisons of arguments with constants
    self.gamma = non_negative("gamma", gamma)                               checks of `ground.arguments`
    self.ood = sets_named(ood, self.known_sets)                             and of `ground.evaluation_sets`
    self.long_tail = LongTail(imbalance_factor, split_seed)                 the same in what it calls of its package
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

from calibench.config.expressions import Unseen, is_true, literal, read, value_of
from calibench.config.keys import LINKED
from calibench.config.signatures import (
    Absent,
    Found,
    arguments,
    class_constants,
    constructors,
    definition,
)
from calibench.ground import arguments as numbers
from calibench.ground import evaluation_sets

# What is computed only sometimes.
_CONDITIONAL = (ast.IfExp, ast.BoolOp, ast.Lambda, ast.ListComp, ast.DictComp, ast.GeneratorExp)
_DEEPEST = 3  # calls within calls that are followed
_CHECKS = {
    name: check
    for module in (numbers, evaluation_sets)
    for name, check in vars(module).items()
    if getattr(check, "__module__", "") == module.__name__
}


def refusal(found: Found, given: Mapping[str, Any]) -> str | None:
    """What a class says of the values that it is given, if it is certain to refuse one of them.

    Args:
        found: The class, or a function.
        given: Values by the names of arguments; text of numbers counts as these.
    """
    return _refusal(found, {name: read(value) for name, value in given.items()}, _DEEPEST)


def _refusal(found: Found, values: Mapping[str, Any], depth: int) -> str | None:
    constants = {f"self.{name}": literal(of) for name, of in class_constants(found).items()}
    for place, (constructor, reaching) in enumerate(constructors(found, set(values))):
        # of the first one alone: the next may be given other values than its defaults
        defaults = _defaults(constructor.node) if place == 0 else {}
        known = constants | defaults | {name: values[name] for name in reaching}
        said = _refused_by(constructor.node.body, known, constructor.module, depth)
        if said is not None:
            return said
    return None


def _defaults(function: Any) -> dict[str, Any]:
    """The defaults of arguments that are constants."""
    positional = [*function.args.posonlyargs, *function.args.args]
    places = zip(reversed(positional), reversed(function.args.defaults), strict=False)
    keywords = zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
    return {arg.arg: literal(of) for arg, of in (*places, *keywords) if arg.arg not in LINKED}


def _refused_by(
    body: Sequence[ast.stmt], values: Mapping[str, Any], module: str, depth: int
) -> str | None:
    """What statements say that follow each other, as far as it is certain that they are reached."""
    for statement in body:
        said = _refused(statement, values, module, depth)
        if said is not None:
            return said
        if _holds(statement, ast.Return):
            return None
        values = {name: values[name] for name in values.keys() - _assigned(statement)}
    return None


@cache
def _holds(node: ast.AST, *kinds: type[ast.AST]) -> bool:
    return any(isinstance(part, kinds) for part in ast.walk(node))


@cache
def _assigned(statement: ast.stmt) -> set[str]:
    """Names that a statement gives other values."""
    names = (node for node in ast.walk(statement) if isinstance(node, ast.Name))
    return {node.id for node in names if isinstance(node.ctx, ast.Store)}


def _refused(statement: ast.stmt, values: Mapping[str, Any], module: str, depth: int) -> str | None:
    if isinstance(statement, ast.Raise):
        return _said(statement, values)
    if isinstance(statement, ast.If):
        try:
            chosen = statement.body if is_true(statement.test, values) else statement.orelse
        except (Unseen, TypeError):
            return None
        return _refused_by(chosen, values, module, depth)
    for call in _calls(statement):
        try:
            _check(call, values)
        except ValueError as error:
            return str(error)
        said = _followed(call, values, module, depth - 1) if depth else None
        if said is not None:
            return said
    return None


def _said(raised: ast.Raise, values: Mapping[str, Any]) -> str:
    """The text of an error, as far as it is known."""
    text = raised.exc.args[0] if isinstance(raised.exc, ast.Call) and raised.exc.args else None
    parts = text.values if isinstance(text, ast.JoinedStr) else [text]
    try:
        return "".join(str(value_of(part, values)) for part in parts if part is not None)
    except Unseen:
        return "this value is refused"


@cache
def _calls(node: ast.AST) -> list[ast.Call]:
    """The calls in a statement that are made whenever it is reached."""
    made = [node] if isinstance(node, ast.Call) else []
    for part in ast.iter_child_nodes(node):
        if not isinstance(part, (*_CONDITIONAL, ast.stmt)):
            made += _calls(part)
    return made


def _check(call: ast.Call, values: Mapping[str, Any]) -> None:
    """Make a check of the ground; raises its ValueError."""
    check = _CHECKS.get(call.func.id) if isinstance(call.func, ast.Name) else None
    if check is not None and not call.keywords:
        with suppress(Unseen, TypeError):
            check(*[value_of(argument, values) for argument in call.args])


def _followed(call: ast.Call, values: Mapping[str, Any], module: str, depth: int) -> str | None:
    """What a function or class of the same package says of the values that it is called with."""
    if not isinstance(call.func, ast.Name):
        return None
    given = [
        _seen(argument, values) for argument in (*call.args, *[k.value for k in call.keywords])
    ]
    if all(value is Unseen for value in given):
        return None
    found = _of_the_package(module, call.func.id)
    names = list((arguments(found) if found is not None else None) or ())
    words = [*names[: len(call.args)], *[str(keyword.arg) for keyword in call.keywords]]
    if found is None or len(words) < len(given) or not set(words) <= set(names):
        return None
    return _refusal(found, dict(zip(words, given, strict=True)), depth)


def _seen(node: ast.expr, values: Mapping[str, Any]) -> Any:
    try:
        return value_of(node, values)
    except (Unseen, TypeError):
        return Unseen


def _of_the_package(module: str, name: str) -> Found | None:
    """The definition behind a name in a module, if it is of the same package and runs when it is called."""
    try:
        found = definition(f"{module}.{name}")
    except Absent:
        return None
    if found is None or found.module.partition(".")[0] != module.partition(".")[0]:
        return None
    if isinstance(found.node, ast.ClassDef):
        return found
    later = found.node.decorator_list or _holds(found.node, ast.Yield, ast.YieldFrom)
    return None if later else found
