"""A job of one's own that is charged to a budget: did more people order tea than coffee?

The answer is told as it is with probability 3/4, so epsilon is ln 3. Run twice, it is charged once and gives the same
answer; on other orders it is refused, since the id is used. docs/budget.md says how the budget is created. It needs
`orders.csv` with a user and a drink in each row, and a secret in `release.key`.
"""

import hmac
from fractions import Fraction
from pathlib import Path

# First, since it loads Beam without its warning that Google's client is missing.
from private_topk import ReleaseKey

# isort: split
import apache_beam as beam
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from private_topk.pipelines.budget import Cost, Request, Windows, charge

KEY = ReleaseKey.parse("file:release.key")
NAME = "tea or coffee/2026"  # the release id, from public knowledge only


def tell(more_tea: bool) -> str:
    # A function of key, id and answer, not a fresh draw: a bundle that is repeated says the same again.
    seed = hmac.digest(KEY.derive("tea or coffee"), f"{NAME} {more_tea}".encode(), "sha256")
    lie = seed[0] < 64
    return "tea" if more_tea != lie else "coffee"


request = Request(
    dataset="orders",
    unit="user-window",
    release_id=NAME,
    key_id=KEY.key_id(),
    fingerprint=hmac.digest(KEY.derive("input"), Path("orders.csv").read_bytes(), "sha256").hex(),
    parameters={"mechanism": "randomised response", "truth": "3/4"},
    windows=Windows.of(None),  # all rows at once, whatever their time
    cost=Cost(Fraction("1.0987"), Fraction(0)),  # ln 3 is a little less
)
pipeline = beam.Pipeline(FnApiRunner())
orders = pipeline | beam.io.ReadFromText("orders.csv", skip_header_lines=1)
drinkers = orders | "Once each" >> beam.Distinct() | "Drink" >> beam.Map(lambda row: row.split(",")[1])
lead = drinkers | beam.Map({"tea": 1, "coffee": -1}.get) | beam.CombineGlobally(sum)
lead | beam.Map(lambda votes: tell(votes > 0)) | beam.io.WriteToText("answer", shard_name_template="")
with charge(request, "sqlite:///budget.db"):
    pipeline.run().wait_until_finish()
