"""Servers on loopback that benchmarks and tests run against: a standalone Flink cluster and a Kafka broker."""

from private_topk import Period as Period  # loads Beam without its warning that Google's client is missing
