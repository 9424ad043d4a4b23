"""`python -m private_topk`: the command `private-topk` where it is not on the path."""

from private_topk.pipelines.cli import console

if __name__ == "__main__":
    console()
