"""Loaded first by the process that commands are copied from: it gets a session, and so a priority, of its own."""

import os

os.setsid()
