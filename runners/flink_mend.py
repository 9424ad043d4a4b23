"""Mends four faults of Beam's job server for Flink: checkpoints that grow without end, data sent without a look at
whether anybody takes it, data received that waits for the end of its bundle, and a cluster that is sent what it has.

*Checkpoints.* When a reader such as ours of Kafka pauses, Flink's runner keeps what is left to read in a state of its
own, under a name with a number that it counts up, and never clears it (Beam's issue 27648, open; seen in 2.62). Every
pause, about one a second, adds some five kilobytes to each checkpoint, and to the memory of the task managers: hundreds
of megabytes a day. Two calls in the packaged job server are led elsewhere. The name's number is taken modulo 8, and
what is read on is cleared. A state is kept by the reader's whole position besides, so two that wait at one moment share
a place only if they are equal to the last bit and a multiple of 8 pauses apart.

*Data.* What a Python worker is to get is put into memory outside the heap until the worker takes it, and only at every
hundredth message the runner waits until it can be sent. A message holds at least one element, and all pairs of a user
shard are one: megabytes at ten million rows. Where the worker is slower than the runner, as on a busy machine, a batch
ended with `OutOfMemoryError: Direct buffer memory`, or for good waited for a task whose channel was gone. Mended, the
runner waits before every message but the first, and no longer than there is somebody to send to: the original waits
for a worker that was killed meanwhile without end.

*What comes back.* What Python workers put out is kept in a queue of a hundred messages until the whole bundle is
over, and in a batch a bundle is all that a subtask has. A message has ten megabytes, so that a reader of 100,000,000
rows filled the heap (`OutOfMemoryError: Java heap space`), or, where there is heap enough, the queue: then the worker
can send no more, does not come to its end, and the queue is not emptied before it does. Mended, what comes is handed on
as it comes, by the thread that brought it, for which the receivers at the other end are made: they lock, or are a queue
themselves. So it is where no timers come back; with these everything waits as before.
"""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

from private_topk.runners.java_class import JavaClass

__all__ = ["STAYS", "mend"]

STAYS = "private-topk.stays"
"""The property of Java with which a mended job server does not send itself to the cluster."""

_BUILDER, _STRING = "java/lang/StringBuilder", "java/lang/String"
_VALUE, _STATE = "org/apache/beam/sdk/state/ValueState", "org/apache/beam/sdk/state/State"
_NAMES = "org/apache/beam/runners/fnexecution/control/BundleCheckpointHandlers$StateAndTimerBundleCheckpointHandler"
_RECEIVES = "org/apache/beam/sdk/fn/data/BeamFnDataInboundObserver"
_QUEUE, _MAP, _EXCEPTION = "org/apache/beam/sdk/fn/CancellableQueue", "java/util/Map", "java/lang/Exception"
_ELEMENTS = "org/apache/beam/model/fnexecution/v1/BeamFnApi$Elements"
_TIMERS = "transformIdToTimerFamilyIdToTimerEndpoint"
_SENDS = "org/apache/beam/sdk/fn/stream/DirectStreamObserver"
_INVOKES, _OPTIONS = "org/apache/beam/runners/flink/FlinkJobInvoker", "org/apache/beam/sdk/options/PipelineOptions"
_LIST, _RESOURCES = "java/util/List", "org/apache/beam/sdk/util/construction/resources/PipelineResources"
_RESUMES = (
    "org/apache/beam/runners/flink/translation/wrappers/streaming/ExecutableStageDoFnOperator$SdkHarnessDoFnRunner"
)


def mend(jar: Path) -> bool:
    """Mend a job server in place, before anybody runs it. False, and nothing is changed, where it has another form."""
    if not zipfile.is_zipfile(jar):
        return False
    with zipfile.ZipFile(jar, "a") as parts:
        try:
            mended = {
                f"{_NAMES}.class": _with_few_names(parts.read(f"{_NAMES}.class")),
                f"{_RESUMES}.class": _that_clears(parts.read(f"{_RESUMES}.class")),
                f"{_SENDS}.class": _that_waits(parts.read(f"{_SENDS}.class")),
                f"{_RECEIVES}.class": _that_hands_on(parts.read(f"{_RECEIVES}.class")),
                f"{_INVOKES}.class": _that_stays(parts.read(f"{_INVOKES}.class")),
            }
        except (KeyError, ValueError):
            return False
        for name, content in mended.items():
            parts.filelist.remove(parts.NameToInfo.pop(name))  # the directory of the parts, which is written anew
            parts.writestr(name, content, zipfile.ZIP_DEFLATED)
    return True


def _with_few_names(content: bytes) -> bytes:
    """`"sdf_checkpoint:" + id + ":" + index`, where the id is now its hash modulo 8."""
    found = JavaClass(content)
    text = found.method(_BUILDER, "append", f"(L{_STRING};)L{_BUILDER};")
    number = found.method(_BUILDER, "append", f"(I)L{_BUILDER};")
    hashed = found.method(_STRING, "hashCode", "()I")
    # builder, id: id.hashCode() & 7, append
    code = struct.pack(">BBBHBBBBHB", 0x2A, 0x2B, 0xB6, hashed, 0x10, 7, 0x7E, 0xB6, number, 0xB0)
    added = found.add("appendFew", f"(L{_BUILDER};L{_STRING};)L{_BUILDER};", code, stack=3, arguments=2)
    found.redirect("constructSdfCheckpointId", struct.pack(">BBH", 0x2A, 0xB6, text), added)
    return found.content()


def _that_clears(content: bytes) -> bytes:
    """The one `ValueState.read()` of a timer, of what is left to read, now with `clear()` after it."""
    found = JavaClass(content)
    read = found.method(_VALUE, "read", "()Ljava/lang/Object;", interface=True)
    clear = found.method(_STATE, "clear", "()V", interface=True)
    # state: state.read(), then state.clear(), what was read stays on the stack
    code = struct.pack(">BBHBBBBHBBB", 0x2A, 0xB9, read, 1, 0, 0x2A, 0xB9, clear, 1, 0, 0xB0)
    added = found.add("readOnce", f"(L{_VALUE};)Ljava/lang/Object;", code, stack=2, arguments=1)
    found.redirect("onTimer", struct.pack(">BHBB", 0xB9, read, 1, 0), added)
    return found.content()


def _that_waits(content: bytes) -> bytes:
    """`this(phaser, observer, 100)`, where the messages between two looks are now 1, and what a look ends with."""
    call = struct.pack(">BBBBBB", 0x2A, 0x2B, 0x2C, 0x10, 100, 0xB7)
    if content.count(call) != 1:
        raise ValueError("no such call, or more than one")
    found = JavaClass(content.replace(call, struct.pack(">BBBBBB", 0x2A, 0x2B, 0x2C, 0x10, 1, 0xB7)))
    (observer,) = found.names("/io/grpc/stub/CallStreamObserver")
    server = observer.replace("/CallStreamObserver", "/ServerCallStreamObserver")
    ready, gone = found.method(observer, "isReady", "()Z"), found.method(server, "isCancelled", "()Z")
    # 0: observer.isReady(), or else 7: whether it is a server's and its caller is gone; then the message is refused
    code = struct.pack(">BBHBH", 0x2A, 0xB6, ready, 0x9A, 20)
    code += struct.pack(">BBHBH", 0x2A, 0xC1, found.named(server), 0x99, 11)
    code += struct.pack(">BBHBHB", 0x2A, 0xC0, found.named(server), 0xB6, gone, 0xAC)
    code += bytes([0x03, 0xAC, 0x04, 0xAC])  # 22: false; 24: true
    frames = struct.pack(">HBB", 2, 22, 1)
    added = found.add("readyOrGone", f"(L{observer};)Z", code, stack=1, arguments=1, frames=frames)
    found.redirect("onNext", struct.pack(">BH", 0xB6, ready), added)
    return found.content()


def _that_hands_on(content: bytes) -> bytes:
    """`queue.put(elements)`, where elements are now dealt out; an empty message says that all have come."""
    found = JavaClass(content)
    queue, timers = found.field("queue", f"L{_QUEUE};"), found.field(_TIMERS, f"L{_MAP};")
    put = found.method(_QUEUE, "put", "(Ljava/lang/Object;)V")
    empty = found.method(_MAP, "isEmpty", "()Z", interface=True)
    deal = found.method(_RECEIVES, "multiplexElements", f"(L{_ELEMENTS};)Z")
    nothing = found.method(_ELEMENTS, "getDefaultInstance", f"()L{_ELEMENTS};")
    cancel = found.method(_QUEUE, "cancel", f"(L{_EXCEPTION};)V")
    # 0: if this.timers is not empty, this.queue.put(elements) and return
    code = struct.pack(">BBHBHBBBH", 0x2A, 0xB4, timers, 0xB9, empty, 1, 0, 0x9A, 12)
    code += struct.pack(">BBHBBHB", 0x2A, 0xB4, queue, 0x2B, 0xB6, put, 0xB1)
    # 21: if this.multiplexElements(elements), this.queue.put(nothing); 39: return
    code += struct.pack(">BBBHBH", 0x2A, 0x2B, 0xB6, deal, 0x99, 13)
    code += struct.pack(">BBHBHBHB", 0x2A, 0xB4, queue, 0xB8, nothing, 0xB6, put, 0xB1)
    # 40: what was thrown from 21 on also goes to whoever waits at the queue
    code += struct.pack(">BBBHBBHBB", 0x4D, 0x2A, 0xB4, queue, 0x2C, 0xB6, cancel, 0x2C, 0xBF)
    thrown = found.named(_EXCEPTION)
    added = found.add(
        "handOn", f"(L{_RECEIVES};L{_ELEMENTS};)V", code, stack=2, arguments=2, places=1,
        catches=struct.pack(">HHHH", 21, 39, 40, thrown), frames=struct.pack(">HBBBBH", 3, 21, 17, 64, 7, thrown),
    )  # fmt: skip
    old = struct.pack(">BBHBBH", 0x2A, 0xB4, queue, 0x2B, 0xB6, put)
    found.replace(f"accept(L{_ELEMENTS};)V", old, struct.pack(">BBBH", 0x2A, 0x2B, 0xB8, added))
    return found.content()


def _that_stays(content: bytes) -> bytes:
    """`detectClassPathResourcesToStage(loader, options)`, which is now nothing where a property says so."""
    found = JavaClass(content)
    kind = f"(Ljava/lang/ClassLoader;L{_OPTIONS};)L{_LIST};"
    detect = found.method(_RESOURCES, "detectClassPathResourcesToStage", kind)
    said = found.method("java/lang/System", "getProperty", f"(L{_STRING};)L{_STRING};")
    nothing = found.method("java/util/Collections", "emptyList", f"()L{_LIST};")
    # 0: if System.getProperty(STAYS) is not null, an empty list; 13: what was detected before
    code = struct.pack(">BHBHBH", 0x13, found.string(STAYS), 0xB8, said, 0xC6, 7)
    code += struct.pack(">BHBBBBHB", 0xB8, nothing, 0xB0, 0x2A, 0x2B, 0xB8, detect, 0xB0)
    added = found.add("nothingOrDetected", kind, code, stack=2, arguments=2, frames=struct.pack(">HB", 1, 13))
    found.redirect("invokeWithExecutor", struct.pack(">BH", 0xB8, detect), added)
    return found.content()
