"""A tool's declaration, and how a call of it becomes a planned step."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ledger.client.requests import Step
from ledger.client.words import EffectClass


@dataclass(frozen=True, slots=True)
class ToolOptions:
    """What is true of every call of a tool. `timeout_s` is the operation timeout.

    `key` makes the idempotency key from the call's own arguments; without it the ledger derives one
    from the step.
    """

    version: str
    effect_class: EffectClass = EffectClass.UNSPECIFIED
    timeout_s: float | None = None
    best_effort: bool = False
    nothing_sent: tuple[type[BaseException], ...] = ()
    key: Callable[..., str] | None = None


@dataclass(frozen=True, slots=True)
class Declared:
    """A function as a tool. Its first parameter is the effect; the others are recorded by name."""

    name: str
    options: ToolOptions
    signature: inspect.Signature = field(repr=False)

    def step(self, step: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Step:
        """The step that plans this call, defaults included. Raises `TypeError` as the call
        would.
        """
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        options = self.options
        return Step(
            step,
            tool=self.name,
            version=options.version,
            arguments=dict(bound.arguments),
            effect_class=options.effect_class,
            key=None if options.key is None else options.key(*args, **kwargs),
        )


def declare(function: Callable[..., Any], name: str | None, options: ToolOptions) -> Declared:
    """Read a function's signature. Raises `TypeError` where it has no parameter for the effect."""
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    if not parameters or parameters[0].kind not in (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    ):
        raise TypeError("a tool's first parameter is the effect that it runs under")
    return Declared(
        name or str(getattr(function, "__name__", "")),
        options,
        signature.replace(parameters=parameters[1:]),
    )
