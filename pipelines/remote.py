"""What a report must not rest on where its workers are other machines: local files, and keys inside the job."""

from __future__ import annotations

from private_topk.pipelines.sinks.sink import Sink
from private_topk.pipelines.sources.domain import DomainFile
from private_topk.pipelines.sources.source import Source
from private_topk.transforms.keys import ReleaseKey
from private_topk.transforms.refusal import Refusal, verbatim
from private_topk.transforms.release import Selection

__all__ = ["check_remote"]


def check_remote(source: Source, sink: Sink, selection: Selection, key: ReleaseKey) -> None:
    """Raise Refusal unless workers elsewhere can read and write all that a report names."""
    _check_key(key)
    domain = getattr(selection.domain, "load", None)
    places = {
        "output": sink.local_places(),
        "input": source.local_places(),
        "domain": (domain.path,) if isinstance(domain, DomainFile) and "://" not in domain.path else (),
    }
    for name, paths in places.items():
        for path in paths:
            raise Refusal(name, f"{verbatim(path)} is a file of this machine, which the workers do not see",
                          "copy it to a bucket and give gs://BUCKET/...")  # fmt: skip


def _check_key(key: ReleaseKey) -> None:
    if key.source == "fresh":
        raise Refusal("release_key", "must be given as gcp-secret:projects/P/secrets/S/versions/V for this runner: a "
                      "fresh key would travel inside the job, where whoever may see the job could read it and undo "
                      "the noise")  # fmt: skip
    if not key.source.startswith("gcp-secret:"):
        rule = f"{verbatim(key.source)} is a place of this machine, which the workers do not see"
        raise Refusal("release_key", rule, "keep the key in Secret Manager and give "
                      "gcp-secret:projects/P/secrets/S/versions/V")  # fmt: skip
