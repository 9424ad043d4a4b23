"""The rankings of WeeklyDrinks.java, charged to a budget together: both sides take the parameters that stand here.

    private-topk budget create --ledger sqlite:///budget.db --dataset orders --epsilon 5 --privacy-unit user
    head -c 32 /dev/urandom | base64 > release.key
    seq 400 | awk '{print "u" $1 "," ($1 % 3 ? "tea" : "cake") ",2026-03-0" 2 + $1 % 8 "T09:30:00Z,2.50"}' > weekly.csv
    python charged.py --output=weekly --expansion=localhost:8097 --runner=PortableRunner --jobEndpoint=localhost:8099

Each call first runs the pipeline dry, and stops where a window would be only noise; with --acceptNoise only where all
would. With --dryRun it then tells how far noise moves counts, and charges nothing.
A second call is free and gives the same rankings. The services are as in docs/java.md.
"""

import hashlib
import hmac
import json
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from private_topk import ReleaseKey
from private_topk.pipelines.beam_yaml import RankRows
from private_topk.pipelines.budget import Ledger, Request, charge_all
from private_topk.transforms.errors import InvalidArgument

LEDGER = "sqlite:///budget.db"
KEY = f"file:{Path('release.key').resolve()}"  # absolute, as of a domain in a file: the service reads it too
ORDERS = Path("weekly.csv")
DRY = "--dryRun"
WORDS = [word for word in sys.argv[1:] if word != DRY]
PLACES = ("--output=", "--expansion=", "--runner=", "--jobEndpoint=", "--acceptNoise")
# Other code, and other options of it, may count other rows: its repeat would be another answer.
CLASSPATH = f"target/classes:{Path('target/classpath').read_text()}"
PARTS = [Path(part) for part in CLASSPATH.split(":") if part]
CODE = sorted(path for part in PARTS for path in (part, *part.rglob("*")) if path.is_file())
OPTIONS = " ".join(sorted(word for word in WORDS if not word.startswith(PLACES)))
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

# Java reads a copy: what is rewritten meanwhile would be released as the rows that were charged.
kept = tempfile.TemporaryDirectory(prefix=".charged-", dir=".")
rows = Path(kept.name) / ORDERS.name
# The same ids, key, orders, compiled code and options are a repeat; others under these ids are refused.
try:
    code = hashlib.sha256()
    for path in CODE:
        code.update(hashlib.sha256(path.read_bytes()).digest())
    rows.write_bytes(content := ORDERS.read_bytes())
    fingerprint = hmac.digest(ReleaseKey.parse(KEY).derive("input"), content, "sha256").hex()
    requests = [  # of unit user, since people come back in other weeks: each week costs
        Request.of(
            RankRows(**parameters).rank,
            dataset="orders",
            fingerprint=fingerprint,
            unit="user",
            parameters={"code": code.hexdigest(), "options": OPTIONS},
        )
        for parameters in RANKINGS.values()
    ]
    receipts = Ledger(LEDGER).charge_all(requests, dry_run=True)
except ValueError as refusal:  # of the key, of a parameter, or of the ledger
    sys.exit(str(refusal))


stopped: list[int] = []  # by these signals: an exception would leave a program that is just starting to run on


def run(*more: str) -> None:
    """Run the program in Java. Ends this one where that has not ended well, and both where this one is stopped."""
    words = [f"--input={rows}", f"--parameters={json.dumps(RANKINGS)}", *WORDS, *more]
    with subprocess.Popen(["java", "-cp", CLASSPATH, "WeeklyDrinks", *words]) as java:
        while (status := java.poll()) is None and not stopped:
            time.sleep(0.1)
        java.kill()
    if stopped:
        sys.exit(128 + stopped[0])
    if status:
        how = f"status {status}: its own lines say why" if status > 0 else f"signal {-status}"
        print(f"the program ended with {how}", file=sys.stderr)
        sys.exit(status if status > 0 else 128 - status)


for word in WORDS:
    if word.startswith(("--expansion=", "--jobEndpoint=")):
        host, _, port = word.partition("=")[2].rpartition(":")
        try:
            socket.create_connection((host, int(port)), timeout=10).close()
        except (OSError, OverflowError, ValueError):
            sys.exit(f"nothing answers at {word}: start that service, or give its HOST:PORT. Nothing was charged")
for each in (signal.SIGINT, signal.SIGTERM):  # which end Java too, and are noted as failed
    signal.signal(each, lambda number, _: stopped.append(number))
# Before the charge: the same pipeline, of which no row comes back.
try:
    run(DRY)
except SystemExit:
    print("Nothing was charged", file=sys.stderr)
    raise
if DRY in sys.argv:
    for request, receipt in zip(requests, receipts, strict=True):
        part = receipt.used and f"with it {float(receipt.used):.1%} of the budget would be used"
        print(f"{request.release_id}: {part or 'a repeat, free'}; {request.noise}")
    print("Nothing was charged")
    sys.exit()
try:
    with charge_all(requests, LEDGER, elsewhere=True):  # Java starts it, and nothing here
        run()  # whose failure ends this inside, so that the charge is noted as failed
except InvalidArgument as refusal:  # of the charge: nothing was drawn
    sys.exit(str(refusal))
