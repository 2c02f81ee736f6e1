"""Uses the deployed functions as clients do, and compares the stored rows with the written ones."""

import sys
import time

import compaction
import load
import logs
import messages
import oracle
import protocols
import storm
from checks import Checks
from deployment import Deployment, rows_of
from server import server


def main():
    checks, deployment = Checks(), Deployment.of_environment()
    protocols.run(deployment, checks)
    if "write protocols" in checks.failed:
        return checks.finish()  # the rest would only run into timeouts
    messages.formats(deployment, checks)
    messages.copies(deployment, checks)
    acknowledged, sender = storm.run(deployment, checks)
    poison = messages.poison(deployment, checks)
    compaction.by_schedule(deployment, checks)

    def compare(ask, name):
        with checks.part(f"every acknowledged row once, {name}"):
            storm.compare(ask, checks, name, acknowledged, sender)
            load.compare(ask, checks, name)

    time.sleep(1.1)  # a query without a token may be stale by a second
    compare(deployment.rows, "as written")
    compaction.on_demand(deployment, checks)
    compare(deployment.rows, "after compaction")
    storm.copies(deployment, checks, sender)
    with server(deployment.store) as url:
        compare(lambda sql: rows_of(url, sql), "by a server over the bucket")
    requests = sum(len(requests) for requests in acknowledged.values())
    written = requests * oracle.ROWS + load.DEVICES * load.ROWS
    logs.run(deployment, checks, written, poison)
    checks.tell(f"{checks.passed} checks passed, {len(checks.failed)} failed")
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
