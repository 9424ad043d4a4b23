"""The errors that say what is wrong without a word of data, and how they come from a worker to the launcher as values.

How what was given and near names show in them stands here too, and how calls are refused that lack an argument.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from decimal import Decimal
from difflib import get_close_matches
from fractions import Fraction
from functools import wraps
from inspect import Parameter, isgeneratorfunction, signature
from itertools import chain
from numbers import Integral, Real
from types import MappingProxyType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints
from unicodedata import normalize

_OTHER = re.compile(r"\{\{|\}\}|\{([a-z_]+)\}")


class InvalidArgument(ValueError):
    """The error of a field that breaks a rule: nothing was done, and the text says what to do. Holds no data.

    A field has one name, as Python spells it. Each door shows it by its own: `publish_counts` is `--publish-counts` on
    the command line and `budget.publish_counts` in a report file.

    Args:
        field: the name; empty where no single field is meant.
        rule: goes on from the name: "must be positive, got -1". Names of other fields stand in braces.
            What was given goes through `verbatim`, since it may hold braces of its own.
        remedy: what to do, where the rule does not say so itself.
        final: nothing that is put right lets the same release be finished (`of_another_release`).
    """

    status = 2
    """The exit status of a command that it ends, if nothing was charged or started before."""
    input: int | None = None
    """The number of the input that it is about, from 1, where that is one of several (`of_input`)."""

    def __init__(self, field: str, rule: str, remedy: str = "", final: bool = False) -> None:
        self.field, self.rule, self.remedy, self.final = field, rule, remedy, final
        super().__init__(self.shown())

    def shown(self, name: Callable[[str], str] = str) -> str:
        """The sentence, with every field by the name that a door gives it."""
        template = ": ".join(part for part in (self.rule, self.remedy) if part)
        sentence = _OTHER.sub(lambda match: name(match[1]) if match[1] else match[0][0], template)
        return f"{name(self.field)} {sentence}" if self.field else sentence

    def renamed(self, name: Callable[[str], str]) -> InvalidArgument:
        """The same refusal, with every field by another name."""
        rule, remedy = (
            _OTHER.sub(lambda match: f"{{{name(match[1])}}}" if match[1] else match[0], text)
            for text in (self.rule, self.remedy)
        )
        return type(self)(name(self.field), rule, remedy, self.final)

    def fields(self) -> list[str]:
        """Every field that is meant, the one that breaks the rule first."""
        others = [match[1] for match in _OTHER.finditer(self.rule + self.remedy) if match[1]]
        return [self.field, *others] if self.field else others

    def __reduce__(self) -> tuple[type[InvalidArgument], tuple[str, str, str, bool]]:
        return type(self), (self.field, self.rule, self.remedy, self.final)


@contextmanager
def of_field(field: str) -> Iterator[None]:
    """Refusals inside are of this field, unless they name another one."""
    try:
        yield
    except InvalidArgument as error:
        raise error if error.field else type(error)(field, error.rule, error.remedy, error.final) from None


@contextmanager
def of_input(number: int) -> Iterator[None]:
    """Refusals inside are about this input of several, counted from 1."""
    try:
        yield
    except InvalidArgument as error:
        error.input = number
        raise


def together(errors: Sequence[InvalidArgument]) -> InvalidArgument:
    """One refusal of one or several inputs: the first, which also tells of the others."""
    first, *others = errors
    if not others:
        return first
    told = [
        f"input {e.input}: {'{' + e.field + '} ' if e.field else ''}{': '.join(filter(None, (e.rule, e.remedy)))}"
        for e in others
    ]
    error = type(first)(first.field, first.rule, "; ".join(filter(None, (first.remedy, *told))), first.final)
    error.input = first.input
    return error


class InputNotReady(InvalidArgument):
    """The error of a field that names what has not come yet: nothing was done, and the same call may succeed later."""

    status = 3


class Unreachable(InvalidArgument):
    """The error of a field that names a server that does not answer, or a ledger that is in use: nothing was done, and
    the cause may pass by itself.
    """

    status = 1


class IncompleteDataError(RuntimeError):
    """Rows or counts of a window were lost or doubled between two stages of the job: nothing is published for it."""

    status = 1


ANOTHER_RELEASE = "take another {release_id}, which costs"
"""The remedy where an answer under the same id would be a second one."""


def of_another_release(field: str, rule: str, remedy: str = "") -> InvalidArgument:
    """A refusal after which the same release cannot be finished: only another one answers, at its own cost.

    Args:
        remedy: what else to do, so that the other release does not end in the same way.
    """
    return InvalidArgument(field, rule, f"{remedy}, and {ANOTHER_RELEASE}" if remedy else ANOTHER_RELEASE, True)


def of_another_key(release_id: str, key_id: str | None, remedy: str) -> InvalidArgument:
    """The refusal of a second answer under an id that another key has drawn, or may have."""
    whose = f"is not the one under which {verbatim(release_id)} is drawn, whose id is {verbatim(str(key_id))}"
    return InvalidArgument("release_key", whose, remedy)


Told = InvalidArgument | IncompleteDataError
"""The errors whose text may be shown to whoever runs the job."""

_TOLD = (InvalidArgument, IncompleteDataError)
_KINDS: dict[str, type[Told]] = {kind.__name__: kind for kind in (*_TOLD, InputNotReady, Unreachable)}
_VALUE = re.compile(r"private-topk-refusal:([\w-]+=*)")
_METHODS = ("setup", "start_bundle", "process", "finish_bundle")
_Class = TypeVar("_Class", bound=type)
_Door = TypeVar("_Door", bound=Callable[..., Any])
_NONE: Mapping[str, Any] = MappingProxyType({})
_FLAGS: Mapping[Any, Any] = {"bool": bool, "bool | None": bool | None, bool | None: bool | None}
_NUMBERS: Mapping[Any, Any] = {int: Integral, float: Real | Decimal, Fraction: Real | Decimal}


class WorkerRefusal(RuntimeError):
    """A refusal on its way from a worker to the launcher.

    Runners pass on nothing but the text of an error's traceback, so a note on it holds the refusal as a value, which
    `told_in` decodes: no sentence is parsed.
    """


def crosses(cls: _Class) -> _Class:
    """A DoFn whose refusals reach the launcher as values, whatever a runner makes of errors.

    Beam looks for state and timers in the signatures of all methods that a DoFn lists, eight times for each DoFn of a
    job: a fifth of what a small job costs, if it lists the thirty that it inherits from Beam.
    """
    own = {name: _crossing(vars(cls)[name]) for name in _METHODS if name in vars(cls)}
    for name, method in {**own, "__dir__": _without_beams}.items():
        setattr(cls, name, method)
    return cls


def _without_beams(fn: object) -> list[str]:
    ours = (vars(kind) for kind in type(fn).mro() if not kind.__module__.startswith("apache_beam."))
    names = {*vars(fn), *chain.from_iterable(ours)}
    return sorted(name for name in names if not name.startswith("__"))


def _crossing(method: Callable[..., Any]) -> Callable[..., Any]:
    if isgeneratorfunction(method):

        @wraps(method)
        def generating(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - of any method
            try:
                yield from method(*args, **kwargs)
            except _TOLD as error:
                raise _on_its_way(error) from error

        return generating

    @wraps(method)
    def calling(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        try:
            return method(*args, **kwargs)
        except _TOLD as error:
            raise _on_its_way(error) from error

    return calling


def _on_its_way(error: Told) -> WorkerRefusal:
    args = error.__reduce__()[1]
    value = json.dumps([type(error).__name__, *args]).encode()
    crossing = WorkerRefusal(str(error))
    crossing.add_note(f"private-topk-refusal:{base64.urlsafe_b64encode(value).decode()}")
    return crossing


def told_in(text: str) -> Told | None:
    """The refusal of a worker in the text of an error that a runner has passed on, or None."""
    for value in _VALUE.findall(text):
        with suppress(ValueError, KeyError, TypeError):  # a runner may have cut its text short
            kind, *args = json.loads(base64.urlsafe_b64decode(value))
            return _KINDS[kind](*args)
    return None


def told_by(error: BaseException) -> Told | None:
    """The refusal that an error is, or that a runner has passed on from a worker in an error of its own; or None."""
    told = (each for each in causes_of(error) if isinstance(each, _TOLD))
    return next(told, None) or told_in(str(error))


def causes_of(error: BaseException | None) -> Iterator[BaseException]:
    """An error, and what it came from."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def reason_in(text: str) -> str:
    """The reason of the operating system or of Kafka's client in the text of an error, such as a full disk or a broker
    that does not answer: one of theirs, without data, and empty if there is none.
    """
    match = re.search(r"\[Errno (\d{1,3})\]|KafkaError\{code=([A-Z_]{1,50}),", text)
    if match is None:
        return ""
    return f"Kafka says {match[2]}" if match[2] else os.strerror(int(match[1]))


def install_extra(name: str) -> str:
    """The remedy where an optional dependency is missing: how one of the extras of this package is installed."""
    return f"`pip install -e '.[{name}]'` in a checkout of private-topk"


def verbatim(text: object) -> str:
    """Something that was given, such as a path, for the rule of a refusal: shown as it is, braces and all.

    It stays on its line, as `printable` has it.
    """
    return literal(printable(str(text)))


def printable(text: str) -> str:
    """A text on one line, such as an item or a path: line ends, tabs and what steers a terminal are written out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def literal(text: str) -> str:
    """Text of our own for the rule of a refusal, in which braces mean themselves."""
    return text.replace("{", "{{").replace("}", "}}")


def refused(sentence: object) -> InvalidArgument:
    """A refusal of no one field, such as of a broken file: the sentence, shown as it is."""
    return InvalidArgument("", verbatim(sentence))


def kind_shown(value: object) -> str:
    """What was given, for a rule: a number or a text as it is written; of all else, which may hold rows, the kind."""
    if isinstance(value, bool | int | float | Fraction | str | None):
        return verbatim(repr(plain(value)))
    return type(value).__name__


def plain(value: Any) -> Any:  # noqa: ANN401 - parameters differ in type
    """A value as JSON can hold it. A fraction that a float is written as is that float, so that 1/10 is named 0.1."""
    if isinstance(value, Fraction):
        with suppress(OverflowError):
            return float(value) if Fraction(repr(float(value))) == value else str(value)
    return value if isinstance(value, int | float | str | bool | None) else str(value)


_MIN, _NEAR = 3, 0.75


def did_you_mean(word: str, known: Iterable[str], otherwise: str = "") -> str:
    """`did you mean NAME?` of the name that a word begins, or else is spelt like, first among those that begin with the
    same whole word, or is a whole word of alone; or another remedy. It says where only their Unicode form differs.
    """
    names = {_plain(name): name for name in known}
    word = _plain(word)
    begun = [name for name in names if len(word) >= _MIN and name.startswith(word)]
    kin = [name for name in names if name.partition("-")[0] == word.partition("-")[0]]
    within = [name for name in names if len(word) >= _MIN and word in name.split("-")]
    near = (
        sorted(begun, key=len)[:1]
        or get_close_matches(word, kin, n=1, cutoff=0.5)
        or get_close_matches(word, names, n=1, cutoff=_NEAR)
        or within * (len(within) == 1)
    )
    if not near:
        return otherwise
    alike = near[0] != word and normalize("NFC", near[0]) == normalize("NFC", word)
    return f"did you mean {names[near[0]]}{' (in another Unicode form)' * alike}?"


def _plain(name: str) -> str:
    return name.lower().lstrip("-").replace("_", "-")


def by_signature(
    door: _Door,
    more: Mapping[str, Any] = _NONE,
    argument: Callable[[str], str] = str,
    elsewhere: Mapping[str, str] = _NONE,
    tables: Collection[str] | None = None,
) -> _Door:
    """The same function, or class: arguments that its signature does not fit are refused, with the nearest.

    An argument of another kind than its annotation says may be refused inside in better words. Where it ends in a
    TypeError or an AttributeError instead, it is refused by its kind. Refusals do not show the way to where they arose.

    Args:
        more: the types of what its `**` takes, by names. `help` shows these too.
        argument: the argument that stands for a field, as refusals from inside name it.
        elsewhere: what to do in place of an argument, by its name.
        tables: the arguments that may be arrays, columns or tables. One that is given for another may hold rows, which
            no refusal shows; None where any may be one.
    """
    if isinstance(door, type):
        door.__init__ = by_signature(door.__init__, more, argument, elsewhere, tables)  # type: ignore[misc]
        return door
    written, called = signature(door), door.__qualname__.removesuffix(".__init__")
    kept = [each for each in written.parameters.values() if each.kind is not Parameter.VAR_KEYWORD]
    others = [Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=of) for name, of in more.items()]
    takes = written.replace(parameters=[*kept, *others])
    own = [name for name in takes.parameters if name not in ("self", "cls")]

    def misfit(args: tuple[Any, ...], given: Mapping[str, Any]) -> InvalidArgument | None:
        for name in sorted(given.keys() - own):
            remedy = elsewhere.get(name) or did_you_mean(argument(name), own, f"there are {', '.join(own)}")
            return InvalidArgument("", f"there is no argument {verbatim(name)}", remedy)
        try:
            known = takes.bind_partial(*args, **given).arguments
        except TypeError as error:  # too many by place, or one twice
            return InvalidArgument("", f"{called} has {error}", f"give them by name: {', '.join(own)}")
        needed = [name for name in own if takes.parameters[name].default is Parameter.empty]
        for name, value in known.items():
            if not isinstance(value, _FLAGS.get(takes.parameters[name].annotation, object)):
                return InvalidArgument(name, f"must be True or False, got {type(value).__name__}")
            if tables is not None and name not in tables and hasattr(value, "__array__") and hasattr(value, "__len__"):
                remedy = "a column is given by its name"
                return InvalidArgument(name, f"must not be a {type(value).__name__} of values", remedy)
        for name in needed:
            if name not in known:
                remedy = elsewhere.get(name) or f"{called} needs {', '.join(needed)}"
                return InvalidArgument(name, "must be given", remedy)
        return None

    def of_another_kind(args: tuple[Any, ...], given: Mapping[str, Any]) -> InvalidArgument | None:
        hints = {**get_type_hints(door), **more}
        for name, value in takes.bind(*args, **given).arguments.items():
            if not _fits(value, hints.get(name, Any)):
                kinds = takes.parameters[name].annotation
                shown = kinds.__name__ if isinstance(kinds, type) else kinds
                return InvalidArgument(name, f"must be {shown}, got {type(value).__name__}")
        return None

    @wraps(door)
    def refusing(*args: Any, **given: Any) -> Any:  # noqa: ANN401 - of any door
        args, given = tuple(map(_flag, args)), {name: _flag(value) for name, value in given.items()}
        refusal = misfit(args, given)
        if refusal is None:
            try:
                return door(*args, **given)
            except InvalidArgument as inside:
                refusal = inside.renamed(argument)
            except (TypeError, AttributeError):
                refusal = of_another_kind(args, given)
                if refusal is None:
                    raise
        raise refusal  # outside the handler, so that it has no context

    refusing.__signature__ = takes  # type: ignore[attr-defined]
    return refusing  # type: ignore[return-value]


def _flag(value: Any) -> Any:  # noqa: ANN401 - an argument of any door
    """NumPy's True and False, as comparing columns gives them, as Python's."""
    return bool(value) if type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_") else value


def _fits(value: object, hint: Any) -> bool:  # noqa: ANN401 - an annotation
    """Whether a value is of a kind that an annotation names; of what it holds nothing is known."""
    hint = _NUMBERS.get(hint, hint)
    kind = get_origin(hint) or hint
    if isinstance(hint, UnionType) or kind is Union:
        return any(_fits(value, one) for one in get_args(hint))
    if kind in (Iterable, Sequence) and isinstance(value, str | bytes | Mapping):
        return False
    with suppress(TypeError):  # a protocol, which classes do not name
        return not isinstance(kind, type) or isinstance(value, kind)
    return True
