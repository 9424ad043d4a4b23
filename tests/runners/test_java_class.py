"""Classes of Java, led elsewhere. What a Java makes of them: `test_flink_mend.py`, and every stream on Flink."""

from __future__ import annotations

import struct

import pytest

from private_topk.runners.java_class import JavaClass

TEXT, NAMED, METHOD, INTERFACE_METHOD, ENTRY_OF_TWO = 1, 12, 10, 11, 5


def small_class() -> bytes:
    """Class `A`, one field, a method `f` that loads its argument, calls `B.g()Z`, and returns what it says."""
    texts = ["A", "java/lang/Object", "f", "(LB;)Z", "Code", "B", "g", "()Z", "field", "I"]
    pool = [bytes([TEXT]) + struct.pack(">H", len(text)) + text.encode() for text in texts]
    pool += [struct.pack(">BH", 7, place) for place in (1, 2, 6)]  # 11: A, 12: Object, 13: B
    pool += [struct.pack(">BHH", NAMED, 7, 8), struct.pack(">BHH", INTERFACE_METHOD, 13, 14)]  # 15: B.g
    pool += [struct.pack(">Bq", ENTRY_OF_TWO, 7)]  # 16 and 17
    code = struct.pack(">BBHBBB", 0x2A, 0xB9, 15, 1, 0, 0xAC)
    body = struct.pack(">HHI", 1, 1, len(code)) + code + struct.pack(">HH", 0, 0)
    field = struct.pack(">HHHH", 0, 9, 10, 0)
    method = struct.pack(">HHHH", 8, 3, 4, 1) + struct.pack(">HI", 5, len(body)) + body
    head = struct.pack(">IHHH", 0xCAFEBABE, 0, 52, 18)
    rest = struct.pack(">HHHHH", 0x21, 11, 12, 0, 1) + field + struct.pack(">H", 1) + method
    return head + b"".join(pool) + rest + struct.pack(">H", 0)


def test_a_class_that_is_only_read_stays_what_it_is() -> None:
    found = JavaClass(small_class())
    assert found.this() == "A" and found.text("Code") == 5 and found.method("B", "g", "()Z", interface=True) == 15
    assert found.content() == small_class()


def test_a_call_is_led_to_an_added_method_and_every_offset_stays() -> None:
    found = JavaClass(small_class())
    added = found.add("h", "(LB;)Z", bytes([0x04, 0xAC]), stack=1, arguments=1)
    found.redirect("f", struct.pack(">BHBB", 0xB9, 15, 1, 0), added)
    again = JavaClass(found.content())
    assert [name for name, _, _ in again._members()[1]] == ["f(LB;)Z", "h(LB;)Z"]
    start, end = again._code("f")
    assert bytes(again._body[start:end]) == struct.pack(">BBHBBB", 0x2A, 0xB8, added, 0, 0, 0xAC)
    start, end = again._code("h")
    assert bytes(again._body[start:end]) == bytes([0x04, 0xAC]) and again.method("A", "h", "(LB;)Z") == added


@pytest.mark.parametrize(("within", "called"), [("f", b"\xb6\x00\x01"), ("f", b"\x00"), ("nothing", b"\x2a")])
def test_what_is_not_there_once_is_refused(within: str, called: bytes) -> None:
    with pytest.raises(ValueError):
        JavaClass(small_class()).redirect(within, called, 1)
    with pytest.raises(ValueError, match="no class"):
        JavaClass(b"PK\x03\x04 something else")
