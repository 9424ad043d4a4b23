"""An audit of what is published: neighbouring inputs, many draws, and the least epsilon that they show.

`python -m benchmarks.audit` runs it; docs/audit.md says what it can see and what not. It is a test and no proof:
epsilon is bounded from below, and what is declared must not be under that.

    datasets     who is in the data, and what is asked of it          paths   from rows to counts
    distinguish  which of two inputs was there, by the answer         audit   all of them together
                                                                  whole_path  also through Beam
"""
