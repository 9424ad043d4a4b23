"""A YAML file as sections of fields that know their line, so that every message can point at it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import yaml

from private_topk.pipelines.options import RENAMED
from private_topk.transforms.errors import Refusal, did_you_mean, refused, verbatim

__all__ = ["Document", "Field"]


@dataclass(frozen=True)
class Field:
    """One value as it is written: a text, or a list of texts. YAML's own guesses (1e-6 is a text, no is false) are
    left aside: what a value means is up to the schema."""

    value: str | list[str]
    line: int


class Document:
    """The fields of a file by their dotted names, such as mechanism.k.

    Args:
        must_be: what is said where the file is something else.
        field: names the file, where an argument does.

    Raises:
        Refusal: the file cannot be read, is no YAML, or repeats a name; with the line.
    """

    def __init__(self, path: str, must_be: str = "a mapping that starts with `report: NAME`", field: str = "") -> None:
        self.path = path
        self.fields: dict[str, Field] = {}
        try:
            with open(path, "rb") as source:
                root = yaml.compose(source, Loader=yaml.SafeLoader)
        except (OSError, ValueError) as error:  # no name may hold a null
            why = getattr(error, "strerror", None) or error
            raise Refusal(field, verbatim(f"{path} cannot be read: {why}")) from None
        except yaml.MarkedYAMLError as error:
            raise self._refusal(error.problem_mark.line + 1 if error.problem_mark else 1,
                                f"not YAML: {error.problem}") from None  # fmt: skip
        except yaml.YAMLError as error:  # of single characters
            raise refused(f"{path} must be printable text in UTF-8: {str(error).splitlines()[0]}") from None
        except RecursionError:
            raise self._refusal(1, "not what was meant: it is nested too deeply") from None
        if not isinstance(root, yaml.MappingNode):
            raise self._refusal(1, f"must be {must_be}")
        self._add(root, "")

    def error(self, name: str, text: str) -> Refusal:
        """An error that points at a field, or at its section or the file where there is none."""
        while name and name not in self.fields:
            name = name.rpartition(".")[0]
        return self._refusal(self.fields[name].line if name else 1, text)

    def _refusal(self, line: int, text: str) -> Refusal:
        return refused(f"{self.path}:{line}: {text}")

    def refuse_unknown(self, known: Iterable[str]) -> None:
        """Raise Refusal for the first field that is not known, with the one that was probably meant."""
        names = set(known)
        sections = {name.rpartition(".")[0] for name in names}
        for name, field in self.fields.items():
            section = name.rpartition(".")[0]
            if section in names - sections:
                raise self.error(name, f"{section} must be a single value")
            renamed = f"{section}.{RENAMED.get(name.rpartition('.')[2])}"
            if renamed in names:
                raise self.error(name, f"{name} is now called {renamed}")
            if name not in names | sections:
                raise self.error(name, f"{name} is not known: {_hint(name, names | sections)}")
            if name in sections - names and field.value != []:
                raise self.error(name, f"{name} must be a section of fields")

    def _add(self, node: yaml.MappingNode, prefix: str) -> None:
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode) or not key.value:
                raise self._refusal(line, "a name must be a single word")
            name = f"{prefix}{key.value}"
            if name in self.fields:
                raise self._refusal(line, f"{name} is given twice, first in line {self.fields[name].line}")
            self.fields[name] = Field(_value(value), line)
            # Sections hold no sections; deeper down, a file whose parts refer to each other would have no end.
            if isinstance(value, yaml.MappingNode) and not prefix:
                self._add(value, f"{name}.")


def _value(node: yaml.Node) -> str | list[str]:
    if isinstance(node, yaml.ScalarNode):
        return node.value
    if isinstance(node, yaml.SequenceNode):
        return [item.value if isinstance(item, yaml.ScalarNode) else "" for item in node.value]
    return []


def _hint(name: str, known: set[str]) -> str:
    """What was probably meant: the same name in another section, or the like in the same one."""
    section, _, last = name.rpartition(".")
    elsewhere = [other for other in known if other.rpartition(".")[2] == last]
    if len(elsewhere) == 1:
        return f"did you mean {elsewhere[0]}?"
    inside = sorted(other.rpartition(".")[2] for other in known if other and other.rpartition(".")[0] == section)
    return did_you_mean(last, inside, f"there can be {', '.join(inside)}")
