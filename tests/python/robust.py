"""Tests servers under hostile clients and overload: robust.py BINARY [--rows N] [--only PART] [--report PAGE].

Starts servers on 127.0.0.1 over a directory that is deleted at the end, and always ends them. Prints a line per check with its findings;
the exit status is 1 if a check failed. A server must serve other clients meanwhile, stay within its memory, give reasons for refusals, and
never panic; rows are compared with those sent, query results with those of DuckDB."""

import argparse
import os
import resource
import signal
import sys
import tempfile
import time
import traceback

from robust import cancel, crowds, ending, garbage, heavy
from robust.report import Report
from robust.server import Fault

PARTS = {"garbage": garbage.run, "crowds": crowds.run, "heavy": heavy.run, "ending": ending.run, "cancel": cancel.run}


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("binary")
    arguments.add_argument("--only", action="append", choices=list(PARTS), help="only this part; may repeat")
    arguments.add_argument("--rows", type=int, default=5_000_000, help="rows of the queries that are cancelled")
    arguments.add_argument("--report", help="a Markdown page of what was found is written there")
    chosen = arguments.parse_args()
    report = Report(" ".join(["robust.py", os.path.basename(chosen.binary), *asked(chosen)]))
    binary = os.path.abspath(chosen.binary)
    # End all started processes on SIGTERM, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # For this program's connections; servers inherit it.
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    began, failed = time.monotonic(), []
    for name, part in PARTS.items():
        if chosen.only and name not in chosen.only:
            continue

        def check(what, run, part=name):
            """Runs one check and prints its findings; later checks run in any case."""
            since = time.monotonic()
            try:
                found = run()
                report.add(part, what, found, True)
                print(f"ok      {part}: {what}: {found} ({time.monotonic() - since:.1f} s)", flush=True)
            except Exception as error:
                failed.append(what)
                found = error if isinstance(error, Fault) else traceback.format_exc()
                report.add(part, what, found, False)
                print(f"FAILED  {part}: {what}: {found} ({time.monotonic() - since:.1f} s)", flush=True)

        with tempfile.TemporaryDirectory(prefix="tidelake-robust.") as directory:
            try:
                part(binary, directory, check, chosen)
            except Exception as error:
                failed.append(name)
                found = error if isinstance(error, Fault) else traceback.format_exc()
                report.add(name, "as a whole", found, False)
                print(f"FAILED  {name}: {found}", flush=True)
    if chosen.report:
        report.write(chosen.report)
    print(f"{len(failed)} failed, {time.monotonic() - began:.0f} s", flush=True)
    return 1 if failed else 0


def asked(chosen):
    """Command line options."""
    yield from (word for part in chosen.only or [] for word in ("--only", part))
    yield from ("--rows", str(chosen.rows))


if __name__ == "__main__":
    sys.exit(main())
