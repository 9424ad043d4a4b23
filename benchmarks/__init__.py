"""Benchmarks: every figure is a ratio against a named baseline of the same run."""
