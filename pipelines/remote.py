"""What a report must not rest on where its workers are other machines: local files, and keys inside the job."""

from __future__ import annotations

from private_topk.pipelines.report import Report
from private_topk.transforms.errors import Refusal, verbatim
from private_topk.transforms.release import ReleaseKey

__all__ = ["check_remote"]


def check_remote(report: Report) -> None:
    """Raise Refusal unless workers elsewhere can read and write all that the report names."""
    _check_key(report.spec.release.key)
    places = {
        "output": report.sink.local_places(),
        "input": report.source.local_places(),
    } | {field: (place,) for field, place in report.spec.top_k.listed() if "://" not in place}
    for field, paths in places.items():
        for path in paths:
            rule = f"{verbatim(path)} is a file of this machine, which the workers do not see"
            raise Refusal(field, rule, "copy it to a bucket and give gs://BUCKET/...")


def _check_key(key: ReleaseKey) -> None:
    if key.in_memory:
        raise Refusal("release_key", "must be given as gcp-secret:projects/P/secrets/S/versions/V for this runner", "a "
                      "random one stays in the memory of this process")  # fmt: skip
    if not key.source.startswith("gcp-secret:"):
        rule = f"{verbatim(key.source)} is a place of this machine, which the workers do not see"
        remedy = "keep the key in Secret Manager and give gcp-secret:projects/P/secrets/S/versions/V"
        raise Refusal("release_key", rule, remedy)
