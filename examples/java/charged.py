"""The rankings of WeeklyDrinks.java, charged to a budget together: both sides take the parameters that stand here.

    private-topk budget create --ledger sqlite:///budget.db --dataset orders --epsilon 5 --privacy-unit user
    head -c 32 /dev/urandom | base64 > release.key
    seq 400 | awk '{print "u" $1 "," ($1 % 3 ? "tea" : "cake") ",2026-03-0" 2 + $1 % 8 "T09:30:00Z,2.50"}' > weekly.csv
    python charged.py --output=weekly --expansion=localhost:8097 --runner=PortableRunner --jobEndpoint=localhost:8099

With --dryRun too it looks at everything, tells how far noise moves counts, and charges nothing. A second call is free
and gives the same rankings. The services are as in docs/java.md.
"""

import hmac
import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

from private_topk import ReleaseKey
from private_topk.pipelines.beam_yaml import RankRows
from private_topk.pipelines.budget import Ledger, Request, charge_all
from private_topk.transforms.errors import InvalidArgument

LEDGER = Ledger("sqlite:///budget.db")
KEY = f"file:{Path('release.key').resolve()}"  # absolute, as of a domain in a file: the service reads it too
ORDERS = Path("weekly.csv")
DRY = "--dryRun"
PARSER = 1  # one more with each change of what WeeklyDrinks counts of a line: then a repeat would be another answer
EACH = {
    "k": 3,
    "domain": ["tea", "cake", "scone", "coffee"],
    "max_items_per_user": 2,
    "period": {"from": "2026-03-02", "to": "2026-03-16", "window": "7d"},
    "release_key": KEY,
}
RANKINGS = {  # each with an id from public knowledge only
    "popular": EACH | {"release_id": "popular/2026", "epsilon": 1.0, "publish_counts": 0.5},
    "spending": EACH
    | {"release_id": "spending/2026", "epsilon": 1.0, "value": "price", "max_value": 20.0, "value_resolution": 0.1},
}

# The same ids, key, orders and parser are a repeat; others under these ids are refused.
fingerprint = hmac.digest(ReleaseKey.parse(KEY).derive("input"), ORDERS.read_bytes(), "sha256").hex()
try:
    requests = [  # of unit user, since people come back in other weeks: each week costs
        Request.of(
            RankRows(**parameters).rank,
            dataset="orders",
            fingerprint=fingerprint,
            unit="user",
            parameters={"parser": PARSER},
        )
        for parameters in RANKINGS.values()
    ]
    for request in requests:
        LEDGER.quote(request)
except ValueError as refusal:  # of a parameter, or of the ledger
    sys.exit(f"{refusal}. Nothing was charged")
classpath = f"target/classes:{Path('target/classpath').read_text()}"
rankings = ["java", "-cp", classpath, "WeeklyDrinks", f"--input={ORDERS}", f"--parameters={json.dumps(RANKINGS)}"]
rankings += [word for word in sys.argv[1:] if word != DRY]
for word in sys.argv[1:]:
    if word.startswith(("--expansion=", "--jobEndpoint=")):
        host, _, port = word.partition("=")[2].rpartition(":")
        try:
            socket.create_connection((host, int(port)), timeout=10).close()
        except (OSError, OverflowError, ValueError):
            sys.exit(f"nothing answers at {word}: start that service, or give its HOST:PORT. Nothing was charged")
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # which ends Java too, and is noted as failed
# Before the charge: only this compares the names of fields with those of the rows, and tells how many can be read.
if status := subprocess.run([*rankings, DRY], check=False).returncode:
    print(f"the pipeline was refused with status {status}: its own lines say why. Nothing was charged", file=sys.stderr)
    sys.exit(status)
if DRY in sys.argv:
    print(*(f"of {request.release_id}, {request.noise}" for request in requests), "Nothing was charged", sep="\n")
    sys.exit()
try:
    with charge_all(requests, LEDGER, elsewhere=True):  # Java starts it, and nothing here
        if status := subprocess.run(rankings, check=False).returncode:
            print(f"the program ended with status {status}: its own lines say why", file=sys.stderr)
            sys.exit(status)  # inside, so that the charge is noted as failed
except InvalidArgument as refusal:  # of the charge: nothing was drawn
    sys.exit(str(refusal))
