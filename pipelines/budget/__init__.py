"""Budgets across releases: how they compose, the ledger that holds them, and the commands for both."""
