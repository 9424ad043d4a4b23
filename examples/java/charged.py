"""The ranking of TopDrinks.java, charged to a budget: both sides take the parameters that stand here.

    private-topk budget create --ledger sqlite:///budget.db --dataset orders --epsilon 1
    head -c 32 /dev/urandom | base64 > release.key
    python charged.py --output=top --expansion=localhost:8097 --runner=PortableRunner --jobEndpoint=localhost:8099

A second call is free and gives the same ranking. The services and `orders.csv` are as in docs/java.md.
"""

import hmac
import json
import socket
import subprocess
import sys
from pathlib import Path

from private_topk import ReleaseKey
from private_topk.pipelines.beam_yaml import RankRows
from private_topk.pipelines.budget import Request, charge
from private_topk.transforms.errors import InvalidArgument

KEY = f"file:{Path('release.key').resolve()}"  # absolute, as of a domain in a file: the service reads it too
ORDERS = Path("orders.csv")
PARSER = 1  # one more with each change of what TopDrinks counts of a line: then a repeat would be another answer
PARAMETERS = {
    "k": 3,
    "epsilon": 1.0,
    "domain": ["tea", "cake", "scone", "coffee"],
    "max_items_per_user": 2,
    "release_key": KEY,
    "release_id": "drinks/2026",  # from public knowledge only
}

# The same id, key, orders and parser are a repeat; others under this id are refused.
fingerprint = hmac.digest(ReleaseKey.parse(KEY).derive("input"), ORDERS.read_bytes(), "sha256").hex()
request = Request.of(
    RankRows(**PARAMETERS).rank, dataset="orders", fingerprint=fingerprint, parameters={"parser": PARSER}
)
classpath = f"target/classes:{Path('target/classpath').read_text()}"
ranking = ["java", "-cp", classpath, "TopDrinks", f"--input={ORDERS}", f"--parameters={json.dumps(PARAMETERS)}"]
ranking += sys.argv[1:]
for word in sys.argv[1:]:
    if word.startswith(("--expansion=", "--jobEndpoint=")):
        host, _, port = word.partition("=")[2].rpartition(":")
        try:
            socket.create_connection((host, int(port)), timeout=10).close()
        except (OSError, OverflowError, ValueError):
            sys.exit(f"nothing answers at {word}: start that service, or give its HOST:PORT. Nothing was charged")
# Before the charge: only this compares the names of fields with those of the rows.
if status := subprocess.run([*ranking, "--expandOnly"], check=False).returncode:
    print(f"the pipeline was refused with status {status}: its own lines say why. Nothing was charged", file=sys.stderr)
    sys.exit(status)
try:
    with charge(request, "sqlite:///budget.db"):
        if status := subprocess.run(ranking, check=False).returncode:
            print(f"the program ended with status {status}: its own lines say why", file=sys.stderr)
            sys.exit(status)  # inside, so that the charge is noted as failed
except InvalidArgument as refusal:  # of the charge: nothing was drawn
    sys.exit(str(refusal))
