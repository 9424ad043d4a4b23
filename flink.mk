# A standalone Flink cluster on this machine, for trying: one job manager, two task managers, a pool of Python workers.
.PHONY: flink-up flink-down

flink-up: .venv/installed
	.venv/bin/python -m private_topk.runners.flink_cluster up

flink-down:
	.venv/bin/python -m private_topk.runners.flink_cluster down
