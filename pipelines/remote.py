"""What a report must not rest on where its workers are other machines: local files, and keys inside the job."""

from __future__ import annotations

from private_topk.pipelines.errors import InputError
from private_topk.pipelines.report import Report
from private_topk.pipelines.sources.domain import DomainFile

__all__ = ["check_remote"]


def check_remote(report: Report) -> None:
    """Raise InputError unless workers elsewhere can read and write all that the report names."""
    source = report.release.key.source
    if source == "fresh":
        raise InputError("--release-key must be given as gcp-secret:projects/P/secrets/S/versions/V for this runner: a "
                         "fresh key would travel inside the job, where whoever may see the job could read it and undo "
                         "the noise")  # fmt: skip
    if not source.startswith("gcp-secret:"):
        raise InputError(f"--release-key {source} is a place of this machine, which the workers do not see: keep the "
                         "key in Secret Manager and give gcp-secret:projects/P/secrets/S/versions/V")  # fmt: skip
    places = {"--output": report.output, "--input": next((f.path for f in report.files if _is_local(f.path)), "gs://")}
    domain = getattr(report.selection.domain, "load", None)
    if isinstance(domain, DomainFile):
        places["--domain"] = domain.path
    for name, path in places.items():
        if _is_local(path):
            raise InputError(f"{name} {path} is a file of this machine, which the workers do not see: copy it to a "
                             "bucket and give gs://BUCKET/...")  # fmt: skip


def _is_local(path: str) -> bool:
    return "://" not in path
