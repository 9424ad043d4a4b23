# A standalone Flink cluster on this machine, for trying: one job manager, two task managers, a pool of Python workers.
.PHONY: flink-up flink-down

flink-up: .venv/installed
	.venv/bin/python -m benchmarks.servers.flink up

flink-down:
	.venv/bin/python -m benchmarks.servers.flink down
