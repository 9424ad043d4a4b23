"""A compiled Java class, of which single calls can be led to methods that are added to it. No Java is needed for it.

Only what that takes is read of the format (The Java Virtual Machine Specification, chapter 4): the constant pool, to
which entries can be appended, and where the methods and their code are. Every offset inside a method stays.
"""

from __future__ import annotations

import struct

__all__ = ["JavaClass"]

_UTF8, _CLASS, _STRING, _FIELD, _METHOD, _INTERFACE_METHOD, _NAME_AND_TYPE = 1, 7, 8, 9, 10, 11, 12
_SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
_STATIC, _PRIVATE, _SYNTHETIC = 0x0008, 0x0002, 0x1000
_NOTHING, _LOAD_0, _CALL_STATIC, _CALL_INTERFACE, _CALL = 0x00, 0x2A, 0xB8, 0xB9, 0xB6


class JavaClass:
    """The bytes of one class. Raises ValueError if they are none.

    `content` gives the bytes back, with all that was changed.
    """

    def __init__(self, content: bytes) -> None:
        if content[:4] != b"\xca\xfe\xba\xbe":
            raise ValueError("no class of Java")
        self._head, self._pool = content[:8], [(0, b"")]
        at, count = 10, struct.unpack_from(">H", content, 8)[0]
        while len(self._pool) < count:
            tag = content[at]
            size = 2 + struct.unpack_from(">H", content, at + 1)[0] if tag == _UTF8 else _SIZES[tag]
            self._pool.append((tag, content[at + 1 : at + 1 + size]))
            if tag in (5, 6):
                self._pool.append((0, b""))  # these take two places
            at += 1 + size
        self._body = bytearray(content[at:])

    def content(self) -> bytes:
        entries = b"".join(bytes([tag]) + value for tag, value in self._pool if tag)
        return self._head + struct.pack(">H", len(self._pool)) + entries + bytes(self._body)

    def text(self, value: str) -> int:
        """The place of a text in the pool, added unless it is there; so are the others."""
        coded = value.encode()
        return self._entry(_UTF8, struct.pack(">H", len(coded)) + coded)

    def named(self, name: str) -> int:
        """The place of a class by its name."""
        return self._entry(_CLASS, struct.pack(">H", self.text(name)))

    def string(self, value: str) -> int:
        """The place of a text that the code takes."""
        return self._entry(_STRING, struct.pack(">H", self.text(value)))

    def method(self, owner: str, name: str, kind: str, interface: bool = False) -> int:
        """The place of a method of a class such as `java/lang/String`, by its name and kind such as `()I`."""
        return self._member(_INTERFACE_METHOD if interface else _METHOD, owner, name, kind)

    def field(self, name: str, kind: str) -> int:
        """The place of a field of the class itself, by its name and kind such as `Ljava/util/Map;`."""
        return self._member(_FIELD, self.this(), name, kind)

    def this(self) -> str:
        """The name of the class itself."""
        place = struct.unpack(">H", self._pool[struct.unpack_from(">H", self._body, 2)[0]][1])[0]
        return self._pool[place][1][2:].decode()

    def names(self, ending: str) -> list[str]:
        """The names of classes in the pool that end so."""
        found = [
            self._pool[struct.unpack(">H", value)[0]][1][2:].decode() for tag, value in self._pool if tag == _CLASS
        ]
        return [name for name in found if name.endswith(ending)]

    def redirect(self, within: str, called: bytes, added: int) -> None:
        """Lead one call in a method to a static method that takes what was on the stack for the first.

        Args:
            within: the method's name, with its kind where there are several.
            called: the instructions to be found in it, once: their last one is the call, of three bytes or five.
            added: the place of the method that is called now.

        Raises ValueError if they are not there, or more than once.
        """
        size = 5 if called[-5:-4] == bytes([_CALL_INTERFACE]) else 3
        self.replace(within, called, called[:-size] + struct.pack(">BH", _CALL_STATIC, added))

    def replace(self, within: str, old: bytes, new: bytes) -> None:
        """Put instructions, not longer ones, in the place of some that a method holds once. Raises as `redirect`."""
        start, end = self._code(within)
        at = self._body.find(old, start, end)
        if at < 0 or self._body.find(old, at + 1, end) >= 0:
            raise ValueError(f"{within} does not hold this once")
        self._body[at : at + len(old)] = new.ljust(len(old), bytes([_NOTHING]))

    def add(
        self, name: str, kind: str, code: bytes, stack: int, arguments: int,
        places: int = 0, catches: bytes = b"", frames: bytes = b"",
    ) -> int:  # fmt: skip
        """Add a static method; its place in the pool.

        Args:
            places: how many local variables it has beside its arguments.
            catches: what it catches, eight bytes each, as in a table of exceptions.
            frames: a table of the stack where branches lead to, which Java asks for where there are any.
        """
        body = struct.pack(">HHI", stack, arguments + places, len(code)) + code
        body += struct.pack(">H", len(catches) // 8) + catches
        body += self._attribute("StackMapTable", frames) if frames else struct.pack(">H", 0)
        head = struct.pack(">HHH", _STATIC | _PRIVATE | _SYNTHETIC, self.text(name), self.text(kind))
        counter, members = self._members()
        self._body[members[-1][2] : members[-1][2]] = head + self._attribute("Code", body)
        number = struct.unpack_from(">H", self._body, counter)[0]
        struct.pack_into(">H", self._body, counter, number + 1)
        return self.method(self.this(), name, kind)

    def _attribute(self, name: str, content: bytes) -> bytes:
        """The one attribute of something, with the number of attributes before it."""
        return struct.pack(">HHI", 1, self.text(name), len(content)) + content

    def _member(self, tag: int, owner: str, name: str, kind: str) -> int:
        described = self._entry(_NAME_AND_TYPE, struct.pack(">HH", self.text(name), self.text(kind)))
        return self._entry(tag, struct.pack(">HH", self.named(owner), described))

    def _entry(self, tag: int, value: bytes) -> int:
        if (tag, value) not in self._pool:
            self._pool.append((tag, value))
        return self._pool.index((tag, value))

    def _members(self) -> tuple[int, list[tuple[str, int, int]]]:
        """Where the number of methods stands, and of each its name with its kind, start and end."""
        at = 6 + 2 * struct.unpack_from(">H", self._body, 6)[0] + 2
        for _ in range(struct.unpack_from(">H", self._body, at)[0]):
            at = self._after_member(at + 2) - 2  # fields
        counter, at, found = at + 2, at + 4, []
        for _ in range(struct.unpack_from(">H", self._body, counter)[0]):
            end = self._after_member(at)
            name, kind = (self._pool[place][1][2:].decode() for place in struct.unpack_from(">HH", self._body, at + 2))
            found.append((name + kind, at, end))
            at = end
        return counter, found

    def _after_member(self, at: int) -> int:
        number, at = struct.unpack_from(">H", self._body, at + 6)[0], at + 8
        for _ in range(number):
            at += 6 + struct.unpack_from(">I", self._body, at + 2)[0]
        return at

    def _code(self, name: str) -> tuple[int, int]:
        """Where the instructions of the one method of a name, or of a name and kind, start and end."""
        found = [(start, end) for each, start, end in self._members()[1] if name in (each, each.partition("(")[0])]
        if len(found) != 1:
            raise ValueError(f"there is not one method {name}")
        at, number = found[0][0] + 8, struct.unpack_from(">H", self._body, found[0][0] + 6)[0]
        for _ in range(number):
            kind, size = struct.unpack_from(">HI", self._body, at)
            if self._pool[kind][1][2:] == b"Code":
                start = at + 14
                return start, start + struct.unpack_from(">I", self._body, at + 10)[0]
            at += 6 + size
        raise ValueError(f"{name} has no code")
