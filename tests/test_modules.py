"""Where the tests of a module are: in the file of its name, or where this page says, which then names what it tests."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = tuple(sorted(path.name for path in (ROOT / "src" / "private_topk").iterdir() if path.is_symlink()))
MODULES = sorted(
    path.relative_to(ROOT).as_posix()
    for room in ROOMS
    for path in (ROOT / room).rglob("*.py")
    if path.name != "__init__.py"
)

RUNS = "pipelines/test_charged_runs.py"
KAFKA = "pipelines/streaming/test_kafka_clock.py"
ROWS = "pipelines/sources/test_row_by_row.py"
CONTRACT = "pipelines/sources/test_contract.py"
SINKS = "pipelines/sinks/test_contract.py"
FLINK = "runners/test_flink_checks.py"
ELSEWHERE = {
    "budget/account.py": "budget/test_filter.py",
    "budget/limits.py": "pipelines/test_question.py",
    "budget/planning.py": "budget/test_exactness.py",
    "budget/plot.py": "documents/test_pages.py::spent.svg",
    "budget/reference.py": "documents/test_pages.py::private-topk plan",
    "budget/refusal.py": "budget/test_exactness.py",
    "budget/sharing.py": RUNS,
    "budget/tables.py": "budget/test_ledger.py::real databases",
    "budget/units.py": "pipelines/test_question.py",
    "pipelines/auditing.py": "pipelines/commands/test_audit.py",
    "pipelines/cli.py": "pipelines/test_publishing.py",
    "pipelines/commands/arguments.py": "pipelines/commands/test_parser.py",
    "pipelines/commands/budget.py": RUNS,
    "pipelines/commands/doctor.py": "pipelines/test_doctor.py",
    "pipelines/commands/flex_template.py": "runners/test_deploy_files.py",
    "pipelines/commands/guesses.py": "pipelines/commands/test_newcomers.py",
    "pipelines/commands/launching.py": "pipelines/commands/test_parser.py",
    "pipelines/commands/ledger.py": RUNS,
    "pipelines/commands/mechanisms.py": "documents/test_inline.py",
    "pipelines/commands/plan.py": RUNS,
    "pipelines/commands/report.py": "pipelines/scheduled/test_publish.py",
    "pipelines/commands/sample.py": "pipelines/test_sample.py",
    "pipelines/commands/select.py": "pipelines/test_select.py",
    "pipelines/commands/stream.py": "pipelines/streaming/test_places.py",
    "pipelines/fields.py": "pipelines/commands/test_parser.py",
    "pipelines/gate.py": "pipelines/test_publishing.py",
    "pipelines/identity.py": "pipelines/test_requests.py",
    "pipelines/lists.py": "pipelines/commands/test_run.py::domain_split",
    "pipelines/look.py": "pipelines/commands/test_check.py",
    "pipelines/outcome.py": "pipelines/commands/test_status.py",
    "pipelines/printable.py": "pipelines/commands/test_run.py",
    "pipelines/readiness.py": "pipelines/commands/test_check.py",
    "pipelines/remote.py": "runners/test_dataflow.py::test_what_workers_elsewhere_cannot_see",
    "pipelines/report.py": "pipelines/test_requests.py",
    "pipelines/frames.py": "pipelines/test_rank.py::Relation",
    "pipelines/sources/frame.py": "pipelines/test_rank.py",
    "pipelines/showing/charts.py": "pipelines/showing/test_page.py::COLOURS",
    "pipelines/showing/guarantee.py": "pipelines/showing/test_page.py::test_what_is_said_holds",
    "pipelines/showing/markup.py": "pipelines/showing/test_page.py::HOSTILE",
    "pipelines/showing/reading.py": "pipelines/commands/test_show.py",
    "pipelines/showing/style.py": "pipelines/showing/test_page.py::contrast",
    "pipelines/showing/text.py": "pipelines/commands/test_show.py",
    "pipelines/showing/told.py": "pipelines/showing/test_page.py",
    "pipelines/sinks/bigquery.py": "pipelines/test_bigquery.py",
    "pipelines/sinks/file.py": SINKS,
    "pipelines/sinks/folder.py": SINKS,
    "pipelines/sinks/manifest.py": "pipelines/sinks/test_formats.py",
    "pipelines/sinks/messages.py": SINKS,
    "pipelines/sinks/rows.py": "pipelines/sinks/test_formats.py",
    "pipelines/sinks/sink.py": "pipelines/sinks/contract.py",
    "pipelines/sources/arrivals.py": "pipelines/streaming/test_arrivals.py",
    "pipelines/sources/avro_blocks.py": "pipelines/sources/test_avro.py::test_one_block_larger",
    "pipelines/sources/avro_rows.py": "pipelines/sources/test_avro_types.py::test_both_decoders",
    "pipelines/sources/avro_schema.py": "pipelines/sources/test_avro_types.py",
    "pipelines/sources/bigquery.py": "pipelines/test_bigquery.py",
    "pipelines/sources/clock.py": KAFKA,
    "pipelines/sources/files.py": CONTRACT,
    "pipelines/sources/folder.py": "pipelines/streaming/test_arrivals.py",
    "pipelines/sources/formats.py": "pipelines/support.py",
    "pipelines/sources/json_rows.py": f"{ROWS}::json",
    "pipelines/sources/kafka.py": KAFKA,
    "pipelines/sources/kafka_java.py": "pipelines/streaming/test_contract.py",
    "pipelines/sources/kafka_partitions.py": KAFKA,
    "pipelines/sources/kafka_reader.py": KAFKA,
    "pipelines/sources/kafka_topic.py": KAFKA,
    "pipelines/sources/left_out.py": "pipelines/test_batch.py::operator_only_rows_left_out",
    "pipelines/sources/payloads.py": "pipelines/streaming/test_payloads.py",
    "pipelines/sources/pubsub.py": CONTRACT,
    "pipelines/sources/source.py": "pipelines/sources/contract.py",
    "pipelines/sources/text.py": ROWS,
    "pipelines/sources/times.py": ROWS,
    "pipelines/unfinished.py": "pipelines/commands/test_status.py",
    "previews/reasons.py": "previews/test_comparing.py",
    "previews/setting.py": "previews/test_comparing.py",
    "previews/tables.py": "previews/test_comparing.py",
    "previews/weights.py": "previews/test_comparing.py",
    "runners/cache.py": FLINK,
    "runners/console.py": "runners/test_flink.py::stderr",
    "runners/flink_cluster.py": "runners/test_flink.py",
    "runners/flink_distribution.py": "conftest.py",
    "runners/flink_jar.py": FLINK,
    "runners/flink_options.py": FLINK,
    "runners/flink_rest.py": "runners/test_flink.py",
    "runners/flink_runner.py": f"{FLINK}::runner.job_options",
    "runners/kafka_broker.py": "pipelines/streaming/conftest.py",
    "runners/loopback.py": "runners/test_portable.py",
    "runners/network.py": "runners/servers.py",
    "runners/prism.py": "runners/test_portable.py",
    "runners/worker_pool.py": "runners/test_portable.py",
    "transforms/admission.py": "transforms/test_top_k.py::must fire exactly once",
    "transforms/count_budget.py": "transforms/test_selection.py",
    "transforms/cut.py": "transforms/test_window_kinds.py",
    "transforms/domain_index.py": "transforms/test_domain.py",
    "transforms/draw.py": "transforms/test_release.py",
    "transforms/headings.py": "transforms/test_groups.py",
    "transforms/heartbeats.py": "transforms/test_guard.py",
    "transforms/parts.py": "transforms/test_guard.py",
    "transforms/user_shard.py": "transforms/test_on_the_fly.py",
    "transforms/windows/asked.py": "pipelines/test_question.py",
    "transforms/windows/calendar.py": "transforms/test_window_kinds.py",
    "transforms/windows/cuts.py": "transforms/test_window_kinds.py",
    "transforms/windows/instants.py": "transforms/test_windows.py",
    "transforms/windows/period.py": "transforms/test_windows.py",
    "transforms/windows/texts.py": "transforms/test_windows.py",
    "transforms/windows/stretches.py": "transforms/test_sent.py::test_stretches_are_the_windows",
}  # fmt: skip
"""Modules that are tested together with others, and where. `tests/` stands before each place; after `::` stands a word
by which the tests of machinery that no test names are found there."""


def own(module: str) -> Path:
    return ROOT / "tests" / Path(module).parent / f"test_{Path(module).name}"


def public(module: str) -> set[str]:
    """What the module offers: its own name, and what it lists in `__all__`."""
    names = {module.removesuffix(".py").replace("/", "."), Path(module).stem.replace("_", "-")}
    for node in ast.parse((ROOT / module).read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names |= set(ast.literal_eval(node.value))
    return names


@pytest.mark.parametrize("module", MODULES)
def test_the_tests_of_a_module_are_found_by_its_name(module: str) -> None:
    if own(module).exists():
        return
    assert module in ELSEWHERE, f"{module} has no tests: write {own(module).relative_to(ROOT)}, or say where they are"
    place, _, word = ELSEWHERE[module].partition("::")
    text = (ROOT / "tests" / place).read_text("utf-8")
    words = [word] if word else public(module)
    assert any(re.search(rf"(?<!\w){re.escape(name)}", text) for name in words), f"{place} names nothing of {module}"


def test_no_place_is_stated_in_vain() -> None:
    assert set(ELSEWHERE) <= set(MODULES), "these are gone"
    assert not [module for module in ELSEWHERE if own(module).exists()], "these have a file of their own"
