"""A YAML file as sections of fields that know their line, so that every message can point at it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import yaml

from private_topk.transforms.near import nearest
from private_topk.transforms.refusal import Refusal, refused, verbatim

__all__ = ["Document", "Field"]


@dataclass(frozen=True)
class Field:
    """One value as it is written: a text, or a list of texts. YAML's own guesses (1e-6 is a text, no is false) are
    left aside: what a value means is up to the schema."""

    name: str
    value: str | list[str]
    line: int


class Document:
    """The fields of a file by their dotted names, such as mechanism.k.

    Args:
        must_be: what is said where the file is something else.

    Raises:
        Refusal: the file cannot be read, is no YAML, or repeats a name; with the line.
    """

    def __init__(self, path: str, must_be: str = "a mapping that starts with `report: NAME`") -> None:
        self.path = path
        self.fields: dict[str, Field] = {}
        try:
            with open(path, encoding="utf-8") as source:
                root = yaml.compose(source, Loader=yaml.SafeLoader)
        except OSError as error:
            raise refused(f"{path} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise refused(f"{path} must be text in UTF-8") from None
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else 1
            raise self._refusal(line, f"not YAML: {error.problem}") from None
        except yaml.reader.ReaderError as error:
            raise Refusal(
                "", verbatim(f"{path} must be printable text: it holds the character {error.character:#x}")
            ) from None
        except RecursionError:
            raise self._refusal(1, "not what was meant: it is nested too deeply") from None
        if not isinstance(root, yaml.MappingNode):
            raise self._refusal(1, f"must be {must_be}")
        self._add(root, "")

    def error(self, name: str, text: str) -> Refusal:
        """An error that points at a field, or at its section or the file where there is none."""
        while name and name not in self.fields:
            name = name.rpartition(".")[0]
        line = self.fields[name].line if name else 1
        return self._refusal(line, text)

    def _refusal(self, line: int, text: str) -> Refusal:
        return refused(f"{self.path}:{line}: {text}")

    def refuse_unknown(self, known: Iterable[str]) -> None:
        """Raise Refusal for the first field that is not known, with the one that was probably meant."""
        names = set(known)
        sections = {name.rpartition(".")[0] for name in names}
        for name in self.fields:
            if name.rpartition(".")[0] in names - sections:
                raise self.error(name, f"{name.rpartition('.')[0]} must be a single value")
            if name not in names | sections:
                raise self.error(name, f"{name} is not known: {_hint(name, names | sections)}")
            if name in sections and name not in names and self.fields[name].value != []:
                raise self.error(name, f"{name} must be a section of fields")

    def _add(self, node: yaml.MappingNode, prefix: str) -> None:
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode) or not key.value:
                raise self._refusal(line, "a name must be a single word")
            name = f"{prefix}{key.value}"
            if name in self.fields:
                raise self._refusal(line, f"{name} is given twice, first in line {self.fields[name].line}")
            self.fields[name] = Field(name, _value(value), line)
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
    """What was probably meant: the like in the same section, or the same name in another one."""
    section, _, last = name.rpartition(".")
    inside = {other.rpartition(".")[2]: other for other in known if other.rpartition(".")[0] == section}
    elsewhere = [other for other in known if other.rpartition(".")[2] == last]
    found = nearest(last, inside)
    if found is not None or len(elsewhere) == 1:
        return f"did you mean {inside[found] if found is not None else elsewhere[0]}?"
    return f"there can be {', '.join(sorted(filter(None, inside)))}"
