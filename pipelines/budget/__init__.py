"""What the command line has to do with budgets: the commands, and the request of a run. The rest is the room budget."""
