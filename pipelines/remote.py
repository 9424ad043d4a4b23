"""What a report must not rest on where its workers are other machines: local files, and keys inside the job."""

from __future__ import annotations

from private_topk.pipelines.errors import InputError
from private_topk.pipelines.report import Report
from private_topk.pipelines.sources.domain import DomainFile
from private_topk.transforms.keys import Release
from private_topk.transforms.selection import Selection

__all__ = ["check_places", "check_remote"]


def check_remote(report: Report) -> None:
    """Raise InputError unless workers elsewhere can read and write all that the report names."""
    given = next((file.path for file in report.files if _is_local(file.path)), "gs://")
    check_places(report.release, report.selection, {"--output": report.output, "--input": given})


def check_places(release: Release, selection: Selection, places: dict[str, str]) -> None:
    """Raise InputError if the key, the domain or one of the places, by their arguments, is of this machine only."""
    source = release.key.source
    if source == "fresh":
        raise InputError("--release-key must be given as gcp-secret:projects/P/secrets/S/versions/V for this runner: a "
                         "fresh key would travel inside the job, where whoever may see the job could read it and undo "
                         "the noise")  # fmt: skip
    if not source.startswith("gcp-secret:"):
        raise InputError(f"--release-key {source} is a place of this machine, which the workers do not see: keep the "
                         "key in Secret Manager and give gcp-secret:projects/P/secrets/S/versions/V")  # fmt: skip
    domain = getattr(selection.domain, "load", None)
    if isinstance(domain, DomainFile):
        places = {**places, "--domain": domain.path}
    for name, path in places.items():
        if _is_local(path):
            raise InputError(f"{name} {path} is a file of this machine, which the workers do not see: copy it to a "
                             "bucket and give gs://BUCKET/...")  # fmt: skip


def _is_local(path: str) -> bool:
    return "://" not in path
