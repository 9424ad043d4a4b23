"""The project from which Maven packages a job server: a package of its own, so that installing takes it along."""
