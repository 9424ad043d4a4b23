"""Any Beam job service that is already up, by its address: the common ground of the portable runners."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence

from apache_beam.options.pipeline_options import PipelineOptions, PortableOptions

from private_topk.runners import Launch, refuse_unknown
from private_topk.runners.loopback import LoopbackRunner
from private_topk.runners.network import reachable
from private_topk.transforms.refusal import Refusal

__all__ = ["check_environment", "prepare"]

_ENVIRONMENTS = ("LOOPBACK", "EXTERNAL", "PROCESS", "DOCKER")


def prepare(arguments: Sequence[str]) -> Launch:
    """Workers run inside this process (LOOPBACK) unless --environment_type says otherwise."""
    refuse_unknown(arguments)
    options = PipelineOptions(list(arguments))
    portable = options.view_as(PortableOptions)
    if not portable.job_endpoint:
        raise Refusal("runner", "portable needs --job_endpoint HOST:PORT, the address of a Beam job service")
    if portable.job_endpoint != "embed" and not reachable(portable.job_endpoint):
        raise ValueError(f"--job_endpoint {portable.job_endpoint}: nothing answers there: start the job service, or "
                         "give its address as HOST:PORT")  # fmt: skip
    check_environment(options, default="LOOPBACK")
    return Launch("portable", LoopbackRunner(), options)


def check_environment(options: PipelineOptions, default: str | None, here: bool = True) -> None:
    """Settle where the workers run. Raises ValueError if they cannot, with what is missing.

    Beam's own default is DOCKER, which hangs for minutes where no container engine is.

    Args:
        here: the job service or cluster is on this machine, so that its view of the workers can be tried from here.
    """
    portable = options.view_as(PortableOptions)
    kind = portable.environment_type = (portable.environment_type or default or "").upper()
    if kind not in _ENVIRONMENTS:
        raise ValueError(f"--environment_type must be one of {', '.join(_ENVIRONMENTS)}, got "
                         f"{kind or 'none'}: say where the Python workers of a cluster run")  # fmt: skip
    if kind == "EXTERNAL":
        pool = portable.environment_config or portable.lookup_environment_option("external_service_address")
        if not pool or (here and not reachable(pool)):
            raise ValueError(f"--environment_config {pool or 'is missing'}: EXTERNAL workers need the address of a "
                             "worker pool that is up: start one beside every task manager with "
                             "`python -m private_topk.runners.worker_pool --port 50000`")  # fmt: skip
    elif kind == "PROCESS":
        _check_process(portable)
    elif kind == "DOCKER" and here and shutil.which("docker") is None:
        raise ValueError("--environment_type DOCKER needs Docker where the tasks run: install it, or use "
                         "EXTERNAL with a worker pool")  # fmt: skip


def _check_process(portable: PortableOptions) -> None:
    command = portable.lookup_environment_option("process_command")
    if command is None and portable.environment_config:
        try:
            command = json.loads(portable.environment_config).get("command")
        except (AttributeError, ValueError):
            command = None
    if not command:
        raise ValueError("--environment_type PROCESS needs --environment_option process_command=PATH, the program "
                         "that starts a Beam worker on a task manager")  # fmt: skip
