"""A ranking as it is released, and the key and id that make its one draw repeatable.

The noise of a release is a function of a secret key and of what is released. A bundle that a runner repeats must not
publish a second noisy answer, so nothing is drawn from ambient randomness.
"""

from __future__ import annotations

import base64
import codecs
import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, ClassVar, NamedTuple

from private_topk.transforms.composite import composite, parts_of
from private_topk.transforms.errors import InvalidArgument, by_signature, install_extra, verbatim
from private_topk.transforms.windows import WindowBounds

Label = str | tuple[str, ...]
"""A label as it is published: of several columns its parts."""


class UnreadableKey(InvalidArgument):
    """The error of a key that is not here: it may be where the workers or another account are."""


class NoiseSize(NamedTuple):
    """The size of the noise of published counts. Public: a function of the specification and of how many counts are
    published. Rows that a bound on the items per user leaves out are not part of it.

    Args:
        stddev: the standard deviation of the noise of each count.
        within_95: with a probability of at least 95% a count is off by no more than this, its rounding included; and if
            counts come with the draw, none of all items, since those that noise has raised are likelier to come out.
    """

    stddev: float
    within_95: int | float


@dataclass(frozen=True)
class Ranking:
    """The released top items of one window. Public.

    Args:
        items: in rank order; where the mechanism answers with a set, in the order of the domain, or of the labels'
            bytes if the domain is unknown. Tuples where items are several columns. `rank` gives back integers as such.
        k: how many were asked for. In the unknown domain fewer may be returned; that is part of the guarantee. Where
            all above a threshold were asked for, how many there are.
        answer: "sequence" or "set".
        group: of which group of the rows, where every one has a ranking.
        group_number: its place in the list of groups, from 0: groups are published in that order.
        noisy_counts: of the items in their order, where they are published; may be negative. Noisy sums where amounts
            are added up, in the measure of these. Counts that come with the draw are too high in the mean.
        noise: how far those may be off for their noise, in the same measure.
        noisy_weights: of a mechanism that weighs users, the noisy sums of weights that it has ranked by: no counts.
        item_columns, group_columns: the names of the columns that have the item, or the group.
    """

    window: WindowBounds
    items: tuple[Label, ...]
    k: int
    answer: str
    noisy_counts: tuple[int | float, ...] | None = None
    noise: NoiseSize | None = None
    group: Label | None = None
    noisy_weights: tuple[float, ...] | None = None
    group_number: int | None = field(default=None, repr=False)
    item_columns: tuple[str, ...] = field(default=("item",), repr=False)
    group_columns: tuple[str, ...] = field(default=("group",), repr=False)

    def label(self) -> str:
        """A name of its own among the rankings of a release."""
        return self.window.label(self.group_label)

    @property
    def group_label(self) -> str | None:
        """The group as one text: of several columns their JSON array."""
        return self.group if self.group is None or len(self.group_columns) == 1 else composite(self.group)  # type: ignore[return-value]

    def in_columns(self, item: tuple[str, ...], group: tuple[str, ...]) -> Ranking:
        """A ranking of labels in the columns that they were read from, where these are several."""
        items, its = self.items, self.group
        return replace(
            self,
            items=tuple(map(parts_of, items)) if len(item) > 1 else items,  # type: ignore[arg-type]
            group=its if its is None or len(group) == 1 else parts_of(its),  # type: ignore[arg-type]
            item_columns=item,
            group_columns=group,
        )

    def group_in_columns(self) -> dict[str, Any]:
        """The published columns of the group: none where there are no groups."""
        return {} if self.group is None else _columns(self.group_columns, self.group)

    def to_rows(self) -> list[dict[str, Any]]:
        """One row for each item: window_start, window_end, maybe group, rank (None in a set), item, maybe noisy_weight,
        noisy_count, noise_stddev, noise_95, k, returned. A ranking file has these
        columns, and the release's id. An item or a group of several columns has these in its place.
        """
        counts = self.noisy_counts or (None,) * len(self.items)
        return [
            {
                "window_start": self.window.start,
                "window_end": self.window.end,
                **self.group_in_columns(),
                "rank": place if self.answer == "sequence" else None,
                **_columns(self.item_columns, item),
                **({} if self.noisy_weights is None else {"noisy_weight": self.noisy_weights[place - 1]}),
                "noisy_count": count,
                "noise_stddev": None if count is None else self.noise and self.noise.stddev,
                "noise_95": None if count is None else self.noise and self.noise.within_95,
                "k": self.k,
                "returned": len(self.items),
            }
            for place, (item, count) in enumerate(zip(self.items, counts, strict=True), 1)
        ]


def _columns(names: tuple[str, ...], label: Label) -> dict[str, Any]:
    """A published label in its columns."""
    return dict(zip(names, label, strict=True)) if len(names) > 1 else {names[0]: label}


DRAWS = "release 7"
"""The version of the draw: another name whenever the same key, id and counts give another answer. A ledger takes a
release as a repeat of an earlier one only under the same name, since another answer over the same data is another
release.
"""


@cache
def _package() -> str:
    from importlib.metadata import PackageNotFoundError, version  # takes long to load

    try:
        return version("private-topk")
    except PackageNotFoundError:
        return "unknown"


class _Version(NamedTuple):
    """What draws: this package, and its draw."""

    package: str
    draws: str

    @classmethod
    def here(cls) -> _Version:
        return cls(_package(), DRAWS)


_MIN_BYTES, _MAX_BYTES = 16, 1 << 16
_KNOWN, _KNOWN_KEY = "known to everybody", b"everybody knows this key, so its noise can be taken off"
_FORMS = "file:PATH, env:NAME or gcp-secret:projects/P/secrets/S/versions/V"


@dataclass(frozen=True)
class ReleaseKey:
    """A reference to the secret key of a release. It prints, compares and pickles without showing the key.

    A job carries it with the version of its launcher, and no worker of another version derives anything from the key:
    it could draw a second answer for the charge of the first, and the manifest would name the launcher's version.

    Args:
        source: file:PATH, env:NAME, gcp-secret:projects/P/secrets/S/versions/V, or the name of a key in the memory of
            this process. It is resolved where the key is needed: the key itself travels in no job.
    """

    source: str
    _launcher: _Version | None = field(
        default=None, init=False, repr=False, compare=False, metadata={"not_in_fingerprint": "no part of the key"}
    )

    def __post_init__(self) -> None:
        given: Any = self.source
        if not isinstance(given, str):
            rule = f"must be a text such as file:PATH, got {type(given).__name__}"
            raise InvalidArgument("release_key", rule, "ReleaseKey.held(...) takes the key itself")
        if given != _KNOWN and not self.in_memory:
            _check_form(given)

    def __reduce__(self) -> tuple[Any, ...]:
        return _of_job, (self.source, *(self._launcher or _Version.here()))

    @classmethod
    def fresh(cls) -> ReleaseKey:
        """A new random key, for a release that nobody will repeat. Only this process has it: workers that are other
        processes or machines need a key that they can read as well.
        """
        return cls.held(secrets.token_bytes(32))

    @classmethod
    def held(cls, secret: bytes) -> ReleaseKey:
        """A key that only this process knows, in its memory as long as it lives."""
        name = hmac.digest(_PROCESS, secret, "sha256").hex()
        _HELD[name] = secret
        return cls(f"{_IN_MEMORY}:{name}")

    @classmethod
    def parse(cls, text: str) -> ReleaseKey:
        """The key behind a reference. Raises InvalidArgument for any other text, without repeating it."""
        _check_form(str(text))
        return cls(text)

    @classmethod
    def for_tests(cls) -> ReleaseKey:
        """A key that everybody knows, so that a test meets the same noise every time. It protects nobody."""
        return cls(_KNOWN)

    @property
    def is_secret(self) -> bool:
        return self.source != _KNOWN

    @property
    def in_memory(self) -> bool:
        """Whether only the process that made the key has it."""
        return self.source.startswith(f"{_IN_MEMORY}:")

    @property
    def is_remote(self) -> bool:
        """Whether the key is kept where only the workers may read it."""
        return self.source.startswith("gcp-secret:")

    def secret(self) -> bytes:
        """The key. Raises InvalidArgument if it cannot be read or is shorter than 16 bytes."""
        if self.source == _KNOWN:
            return _KNOWN_KEY
        kind, _, name = self.source.partition(":")
        if self.in_memory:
            if name not in _HELD:
                raise not_here()
            return _HELD[name]
        secret = _READERS[kind](name).strip()
        if secret.startswith(codecs.BOM_UTF8):  # which editors add and remove unseen: another key each time
            rule = f"{verbatim(self.source)} begins with a byte order mark, which would be part of the key"
            raise InvalidArgument("release_key", rule, "write it without: `tail -c +4 KEY > NEW`")
        if len(secret) < _MIN_BYTES:
            rule = f"{verbatim(self.source)} must have at least {_MIN_BYTES} bytes, got {len(secret)}"
            raise InvalidArgument("release_key", rule, "make one with `head -c 32 /dev/urandom | base64`")
        return secret

    def derive(self, purpose: str) -> bytes:
        """32 bytes for one purpose, from which neither the key nor any other purpose's bytes can be told.

        Raises InvalidArgument on a worker of another version than the launcher's.
        """
        launcher = self._launcher
        if launcher is not None and launcher != (here := _Version.here()):
            theirs, own = (verbatim(f"private-topk {each.package} ({each.draws})") for each in (launcher, here))
            rule = f"a worker has {own}, and the launcher {theirs}, so it may draw a second answer for the same charge"
            raise InvalidArgument("", rule, "install the same version on both, and start the pool of workers again")
        return hmac.digest(self.secret(), purpose.encode(), "sha256")

    def key_id(self) -> str:
        """A public name of the key: tells whether two releases had the same key, and nothing else of it."""
        return self.derive("key id").hex()[:16]


def _of_job(source: str, package: str, draws: str) -> ReleaseKey:
    """A key as a job brings it to a worker."""
    key = ReleaseKey(source)
    object.__setattr__(key, "_launcher", _Version(package, draws))
    return key


@by_signature
@dataclass(frozen=True)
class Release:
    """The key and the id of a release, which make it repeatable.

    The id must come from public knowledge (report name and period), never from the data: docs/privacy.md says why.
    """

    identity_tag: ClassVar[str] = "release"

    key: ReleaseKey = field(metadata={"not_in_fingerprint": "a ledger knows a key by its id"})
    id: str

    def __post_init__(self) -> None:
        if not isinstance(self.key, ReleaseKey):
            raise InvalidArgument(
                "release_key", f"must be a ReleaseKey (ReleaseKey.parse), got {type(self.key).__name__}"
            )
        if not isinstance(self.id, str) or not self.id.strip() or len(self.id) > 500 or not self.id.isprintable():
            raise InvalidArgument("release_id", "must be 1 to 500 printable characters, and not all blanks")

    @classmethod
    def fresh(cls) -> Release:
        """A release of its own: a new random key and id."""
        return cls(ReleaseKey.fresh(), _fresh_id())

    @classmethod
    def named(cls, key: str | None, id: str | None = None) -> Release | None:
        """The release of a key's reference and an id, by default a new one; None without both.

        Raises InvalidArgument for an id without a key.
        """
        if key is not None:
            return cls(ReleaseKey.parse(key), _fresh_id() if id is None else id)
        if id is not None:
            why = "an id repeats a release only under the same key"
            raise InvalidArgument("release_id", "needs {release_key}", why)
        return None

    @classmethod
    def repeated(cls, key: str | None, id: str | None = None) -> Release | None:
        """The same, where a new id would be told to nobody: raises InvalidArgument for a key without an id too."""
        if key is not None and id is None:
            raise InvalidArgument("release_key", "needs {release_id}: the name of the draw that is repeated")
        return cls.named(key, id)


def _fresh_id() -> str:
    return base64.b32encode(secrets.token_bytes(15)).decode().lower()


def release_seed(release: Release, window: str, parameters: Mapping[str, object], data: bytes) -> bytes:
    """The key of a release's keystream: HMAC-SHA256 under the release key of everything the answer depends on.

    Args:
        window: the window's public name.
        parameters: mechanism, k, domain and every other parameter; must be JSON.
        data: SHA-256 digest of the counts, so that other counts meet fresh noise.
    """
    message = json.dumps([f"private-topk {DRAWS}", release.id, window, parameters, data.hex()], sort_keys=True)
    return hmac.digest(release.key.derive("release"), message.encode(), hashlib.sha256)


def _check_form(reference: str) -> None:
    kind, _, rest = reference.partition(":")
    if kind not in _READERS or not rest:
        raise InvalidArgument(
            "release_key", f"must be given as {_FORMS}", "the key itself never goes on a command line"
        )
    if kind == "gcp-secret" and not re.fullmatch(r"projects/[^/]+/secrets/[^/]+/versions/[^/]+", rest):
        raise InvalidArgument("release_key", "must name a version: gcp-secret:projects/P/secrets/S/versions/V")


def _from_file(path: str) -> bytes:
    try:
        with open(path, "rb") as source:
            secret = source.read(_MAX_BYTES + 1)
    except OSError as error:
        raise UnreadableKey("release_key", f"file:{verbatim(path)} cannot be read: {error.strerror}") from None
    if len(secret) > _MAX_BYTES:  # such as /dev/urandom, which has no end and would be another key each time
        raise InvalidArgument("release_key", f"file:{verbatim(path)} must have at most {_MAX_BYTES:,} bytes")
    return secret


def _from_environment(name: str) -> bytes:
    value = os.environ.get(name)
    if value is None:
        raise UnreadableKey(
            "release_key",
            f"env:{verbatim(name)} is not set",
            f"export {verbatim(name)}, here and where the workers run",
        )
    return os.fsencode(value)  # whatever bytes it has: an error of decoding would show some of them


def _from_secret_manager(name: str) -> bytes:
    try:
        from google.cloud import secretmanager
    except ImportError:
        raise InvalidArgument("release_key", "gcp-secret: needs Google's clients", install_extra("gcp")) from None
    try:
        return secretmanager.SecretManagerServiceClient().access_secret_version(name=name).payload.data
    except Exception as error:  # Google's layers raise a dozen kinds
        raise InvalidArgument(
            "release_key",
            f"gcp-secret:{verbatim(name)} cannot be read here ({type(error).__name__})",
            "`gcloud auth application-default login`, and roles/secretmanager.secretAccessor on the secret",
        ) from None


def series_name(release_id: str) -> str:
    """The part of an id before its first slash, which releases of one report share: its periods and corrections.

    By it pages and sheets find in a ledger what belongs to a ranking and is not there.
    """
    return release_id.partition("/")[0]


def check_stays(release: Release | None) -> None:
    """Raise InvalidArgument for a release that no later call can repeat, or anybody: none to charge a budget for."""
    if release is None or release.key.in_memory:
        raise InvalidArgument(
            "release",
            "must have a key and an id that stay, or calling again is charged again",
            'give Release(ReleaseKey.parse("file:key"), "an id")',
        )
    if not release.key.is_secret:
        raise InvalidArgument(
            "release", "of a key that everybody knows protects nobody, so no budget covers it", "it is for tests"
        )


@dataclass(eq=False)
class _Open:
    """An open charge: the requests that it pays for, and the ids of those whose pipeline was started."""

    requests: Sequence[Any]
    started: set[str] = field(default_factory=set)


_OPEN: list[_Open] = []
"""The open charges of this process."""


@contextmanager
def paid_for(requests: Sequence[Any]) -> Iterator[set[str]]:
    """While the block runs, `check_paid` refuses what they do not ask for, in any thread of this process, and adds to
    the set the ids of what it lets through.
    """
    _OPEN.append(charge := _Open(requests))
    try:
        yield charge.started
    finally:
        _OPEN.remove(charge)


def check_paid(ranking: Any) -> None:  # noqa: ANN401 - what draws, which has a release
    """Raise InvalidArgument, while charges are open, for rankings that none of them pays for, except by a key that
    everybody knows. A request for another ranking of the id does not pay; one of one's own names no draw to compare.
    """
    release = ranking.release
    if not _OPEN or not release.key.is_secret:
        return
    paying = [(charge, each) for charge in _OPEN for each in charge.requests if each.release_id == release.id]
    if not paying:
        rule = f"{verbatim(release.id)} is not charged by the open `with charge(...)`, so this pipeline draws nothing"
        remedy = "give charge_all its Request too"
        if release.key.in_memory:
            rule = "must be given and charged inside an open `with charge(...)`, so this pipeline draws nothing"
            remedy = "give release=Release(KEY, ID) and charge_all its Request too"
        raise InvalidArgument("release", rule, f"{remedy}, or run it in a pipeline of its own outside that `with`")
    for _, request in paying:
        if "draws" in request.parameters and not request.is_of(ranking):
            rule = f"{verbatim(release.id)} was charged for another rank, so this pipeline draws nothing"
            remedy = "run the rank that was charged, which is free, or charge this one under another id"
            raise InvalidArgument("release", rule, remedy)
    for charge, _ in paying:
        charge.started.add(release.id)


def is_paid(request: object) -> bool:
    """Whether an open charge of this process pays for a request."""
    return any(request in charge.requests for charge in _OPEN)


def not_here() -> InvalidArgument:
    """The refusal of a key in memory, where workers are other processes."""
    rule = "must be given where workers are other processes: only the process that makes a random one has it"
    remedy = f"give {_FORMS}, which the workers can read"
    in_python = 'to PrivateTopK, as release=Release(ReleaseKey.parse("file:key"), "an id")'
    return InvalidArgument("release_key", rule, f"{remedy}; {in_python}")


_IN_MEMORY = "in memory"
_PROCESS = secrets.token_bytes(32)  # so that a name tells nothing of its key, and no other process finds one by it
_HELD: dict[str, bytes] = {}
_READERS = {"file": _from_file, "env": _from_environment, "gcp-secret": _from_secret_manager}
