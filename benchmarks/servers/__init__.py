"""Servers on loopback that benchmarks and tests run against: a standalone Flink cluster and a Kafka broker."""
