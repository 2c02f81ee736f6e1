"""Attacks the server: hostile.py BINARY [--mode off|on|proxy] [--only NAME] [--list].

The name of each attack states the promise that it tries to break. Each attack has a control: the legitimate version of the same request
works. The attacks run against local servers without authentication (`off`), with authentication (`on`), and with authentication behind
a TCP load balancer that sends the PROXY protocol (`proxy`). Prints one line per attack and the counts at the end; the exit status is 1
when an attack succeeded."""

import argparse
import contextlib
import functools
import os
import re
import resource
import signal
import sys
import tempfile
import threading
import time
import traceback

# Importing a module registers its attacks.
from hostile import audit, bodies, doors, flights, foreign, guess, idle, root, secrets, statements  # noqa: F401
from hostile.attacks import ALL, ATTACKS, Field
from robust.server import Fault


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("binary")
    arguments.add_argument("--mode", action="append", choices=ALL, help="only servers of this kind; may repeat")
    arguments.add_argument("--only", action="append", help="only attacks whose name this expression is found in; may repeat")
    arguments.add_argument("--list", action="store_true", help="print the attacks, and end")
    chosen = arguments.parse_args()
    attacks = {name: kind for name, kind in ATTACKS.items() if not chosen.only or any(re.search(one, name) for one in chosen.only)}
    if chosen.list:
        print("\n".join(f"{name}: {', '.join(modes)}" for name, (_, modes, _) in attacks.items()))
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    binary = os.path.abspath(chosen.binary)
    with contextlib.ExitStack() as stack:
        fields = []
        for mode in chosen.mode or ALL:
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="tidelake-hostile."))
            fields.append(Field(binary, directory, mode))
            stack.callback(fields[-1].end)
        # Statements that take rights away are answered after two seconds: servers of all modes wait for them at once.
        results = []
        threads = [
            threading.Thread(target=lambda field=field: results.extend(attacked(field, attacks, False)), daemon=True) for field in fields
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for field in fields:
            results.extend(attacked(field, attacks, True))
    passed = sum(results)
    print(f"{passed} passed, {len(results) - passed} failed", flush=True)
    return 0 if results and passed == len(results) else 1


def attacked(field, attacks, alone):
    """Runs the attacks of one mode; yields for each whether the promise holds."""
    for name, (run, modes, is_alone) in attacks.items():
        if field.mode in modes and is_alone == alone:
            yield tried(f"{field.mode}: {name}", functools.partial(run, field))
    if field.shared and not alone:
        yield tried(f"{field.mode}: the_shared_server_never_panicked", lambda: field.shared.calm() or "its log has no panic")


def tried(name, run):
    """Runs one attack and prints its result; returns whether the promise holds."""
    began = time.monotonic()
    try:
        found, holds = run(), True
    except Exception as error:
        found, holds = error if isinstance(error, Fault) else traceback.format_exc(), False
    print(f"{'ok     ' if holds else 'FAILED '} {name}: {found} ({time.monotonic() - began:.1f} s)", flush=True)
    return holds


if __name__ == "__main__":
    sys.exit(main())
