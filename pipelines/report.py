"""A report: a question, where its rows come from, where its rankings go, and whose budget pays."""

from __future__ import annotations

from dataclasses import dataclass

from private_topk.budget.charging import Account
from private_topk.pipelines.fields import Asked, require
from private_topk.pipelines.question import Question, question_of
from private_topk.pipelines.sinks import sink_of
from private_topk.pipelines.sinks.sink import Sink
from private_topk.pipelines.sources import source_of
from private_topk.pipelines.sources.columns import Columns
from private_topk.pipelines.sources.source import Source
from private_topk.transforms.refusal import Refusal

__all__ = ["Report", "account_of", "report_of"]

_BYTES_PER_SHARD = 4 << 20
_MOST_SHARDS = 1 << 16
_SHARDS_OF_A_STREAM = 16


@dataclass(frozen=True)
class Report:
    """One run of the pipeline, `run` takes it.

    Args:
        account: whose budget is charged, before the run starts; None keeps no books.
        shards: user shards, a power of two; any number gives the same ranking, None chooses by size.
    """

    question: Question
    source: Source
    sink: Sink
    account: Account | None = None
    shards: int | None = None

    def __post_init__(self) -> None:
        if self.shards is not None and self.shards not in {1 << n for n in range(_MOST_SHARDS.bit_length())}:
            raise Refusal("shards", f"must be a power of two from 1 to {_MOST_SHARDS}, got {self.shards}")

    def user_shards(self) -> int:
        """As asked for; otherwise about 4 MiB of stored input a shard and window, so that each fits a worker's memory.

        Many windows take few shards: a runner keeps books on every pair of the two, and spends its time on that.
        """
        if self.shards is not None:
            return self.shards
        if not self.source.bounded:
            return _SHARDS_OF_A_STREAM
        windows = len(self.question.period) if self.question.period else 1
        stored = self.source.stored_bytes() // windows
        least = 1 << max(4 - (windows - 1).bit_length(), 0)
        return min(max(least, 1 << (stored // _BYTES_PER_SHARD).bit_length()), 1 << 14)


def report_of(asked: Asked, *, watch: bool = False) -> Report:
    """The report that a door was given. Reads the domain and the ledger; looks at no other place yet.

    Args:
        watch: the input is a stream, or files that still arrive, and not files that are all there.

    Raises:
        Refusal: naming the field, the rule and the remedy.
    """
    require(asked, "input", "output", "mechanism", "k", "epsilon")
    account = account_of(asked)
    unit = asked.get("privacy_unit", "user-window")
    question = question_of(asked, account.budget(unit).total if account else None)
    columns = Columns(**{name: asked[f"{name}_column"] ...})
    return Report(question, source_of(...), sink_of(...), account, asked.get("shards"))


def account_of(asked: Asked) -> Account | None:
    """The account that is charged, or None. Raises Refusal if half of it is missing."""
    ledger, dataset = asked.get("ledger"), asked.get("dataset")
    if ledger is None and dataset is None:
        return None
    if ledger is None or dataset is None:
        raise Refusal("ledger", "and {dataset} go together: where spending is kept, and whose budget it is")
    return Account(ledger, dataset)
