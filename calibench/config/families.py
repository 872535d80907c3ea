"""Families of classes that a configuration may name, with their arguments; no class is imported."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from calibench.config.catalogue import (
    CONTRACTS,
    classes,
    defining_modules,
    is_abstract,
    of_the_current_folder,
    plugins,
)
from calibench.config.merging import short_name
from calibench.config.signatures import Absent, Argument, Found, arguments, definition, exported
from calibench.ground.errors import near_matches


@dataclass(frozen=True)
class Family:
    """The classes of one kind.

    Attributes:
        annotations: How the types of arguments call them.
        keys: What arguments that take one are called.
        package: The package that exports them.
        kind: What `calibench list` calls them; empty if it does not list them.
        first: Arguments that the caller adds in front.
        of_function: The same for a function in its place: a loss is called with logits and target.
        stand_in: The class that stands for one of another kind and passes its arguments on, if there is one.
    """

    annotations: Sequence[str]
    keys: Sequence[str]
    package: str
    kind: str = ""
    first: int = 0
    of_function: int = 0
    stand_in: str = ""

    @property
    def names(self) -> list[str]:
        """The names that a configuration may use; neither abstract classes nor private ones."""
        if not self.kind:
            return [name for name in exported(self.package) if name not in _BASES]
        others = [entry.name for entry in plugins(self.kind)]
        return [*classes(self.kind), *others, *of_the_current_folder(self.kind)]

    def find(self, path: str) -> Found | None:
        """The class behind a name or an import path; None if the source does not tell.

        Raises:
            Absent: If there is none for certain.
        """
        module, _, name = path.rpartition(".")
        modules = defining_modules(self.kind) if self.kind else {}
        if name in modules and module in ("", self.package):
            return definition(f"{modules[name]}.{name}")
        if module and not (module == self.package and self.kind and name[:1].isupper()):
            return definition(path)
        if self.kind and not module and plugins(self.kind):  # which may bring more than they name
            return None
        if not self.kind and name in exported(self.package) and name not in _BASES:
            return self._concrete(name)
        raise Absent("")

    def _concrete(self, name: str) -> Found | None:
        found = definition(f"{self.package}.{name}")
        if found is not None and isinstance(found.node, ast.ClassDef) and is_abstract(found.node):
            raise Absent("")
        return found

    def arguments(self, found: Found) -> dict[str, Argument] | None:
        """The arguments that a configuration may give to a class of the family."""
        every = arguments(found)
        if every is None or found.node.name == self.stand_in:
            return None
        others = {} if found.module.startswith("calibench.") else self._of_stand_in()
        before = self.of_function if isinstance(found.node, ast.FunctionDef) else self.first
        return dict(list(every.items())[before:]) | others

    def _of_stand_in(self) -> dict[str, Argument]:
        modules = defining_modules(self.kind) if self.kind else {}
        if self.stand_in not in modules:
            return {}
        found = definition(f"{modules[self.stand_in]}.{self.stand_in}")
        known = (arguments(found) if found is not None else None) or {}
        return {name: replace(argument, required=False) for name, argument in known.items()}

    def no_class(self, key: str, path: str, reason: str = "", names: Sequence[str] = ()) -> str:
        """One line about a name or an import path that is no class.

        Args:
            key: The dotted key at which it stands.
            path: What was given.
            reason: What Python would say of it.
            names: The names in the module of the path.
        """
        public = [name for name in names if name[0].isupper() and name not in _BASES]
        missing = reason.startswith("No module named") and not reason.count(".")
        near = "" if missing else near_matches(short_name(path), public or self.names)
        why = f" ({reason})" if reason else ""
        return f"`{key}`: no class `{path}`{near}{why}{'' if near else self._remedy(reason)}"

    def _remedy(self, reason: str) -> str:
        if reason.startswith("No module"):
            return ": install it, or run where its file is"
        if self.kind:
            return f" (see `calibench list {self.kind}`)"
        return f"; there are {', '.join(self.names)}"


# Base classes among what torch and Lightning export.
_BASES = ("Optimizer", "LRScheduler", "Callback", "Checkpoint", "Logger", "Profiler", "ProgressBar")

_KEYS: Mapping[str, Sequence[str]] = {
    "losses": ("loss", "losses"),
    "backbones": ("backbone",),
    "calibrators": ("calibrators", "calibrator"),
    "data": ("data",),
}
# What another kind of class is put into, see `calibench.training.wrapping`.
_STAND_INS: Mapping[str, Mapping[str, Any]] = {
    "losses": {"stand_in": "ImportedLoss", "of_function": 2},
    "backbones": {"stand_in": "ImportedBackbone"},
    "data": {"stand_in": "ImportedDataModule"},
}
FAMILIES = (
    *(
        Family((CONTRACTS[kind],), keys, f"calibench.{kind}", kind, **_STAND_INS.get(kind, {}))
        for kind, keys in _KEYS.items()
    ),
    Family(("OptimizerCallable", "Optimizer"), ("optimizer",), "torch.optim", first=1),
    Family(
        ("LRSchedulerCallable", "LRScheduler"),
        ("lr_scheduler",),
        "torch.optim.lr_scheduler",
        first=1,
    ),
    Family(("StepSchedulerCallable",), ("step_scheduler",), "torch.optim.lr_scheduler", first=2),
    Family(("Callback",), ("callbacks",), "lightning.pytorch.callbacks"),
    Family(("Logger",), ("logger",), "lightning.pytorch.loggers"),
)


def family_of_type(annotation: ast.expr | None) -> Family | None:
    """The family of the classes that a type names."""
    nodes = ast.walk(annotation) if annotation else ()
    words = {node.id for node in nodes if isinstance(node, ast.Name)}
    return next((one for one in FAMILIES if words & set(one.annotations)), None)


def family_of_key(key: str) -> Family | None:
    """The family of the classes that stand at a dotted key, from the last part of the key that names a family."""
    for part in reversed(key.split(".")):
        name = part.partition("[")[0]
        for family in FAMILIES:
            if name in family.keys:
                return family
    return None
