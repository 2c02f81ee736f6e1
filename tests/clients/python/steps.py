"""Runs named steps, each with a deadline, and prints what came of each as one line of JSON."""

import json
import os
import sys
import threading
import traceback
from urllib.parse import urlsplit

SECONDS = 90


class Target:
    """The server, and what it wants to see of who comes."""

    def __init__(self):
        url = urlsplit(os.environ["CLIENT_URL"])
        self.host, self.port, self.tls = url.hostname, url.port, url.scheme == "https"
        self.user = os.environ.get("CLIENT_USER")
        self.password = os.environ.get("CLIENT_PASSWORD")
        self.token = os.environ.get("CLIENT_TOKEN")
        self.authority = os.environ.get("CLIENT_CA")

    @property
    def http(self):
        return f"{'https' if self.tls else 'http'}://{self.host}:{self.port}"

    @property
    def grpc(self):
        return f"{'grpc+tls' if self.tls else 'grpc'}://{self.host}:{self.port}"

    def authority_text(self):
        with open(self.authority) as file:
            return file.read()


class Steps:
    def __init__(self, client):
        self.client = client
        self.failed = 0

    def step(self, name, reason=None):
        """Runs the function that it decorates, at once. With a reason the client is known to fail, whatever the server does."""

        def run(function):
            fault = _outcome(function)
            line = {"client": self.client, "step": name, "ok": fault is None and reason is None, "note": fault or ""}
            if reason and fault:
                line |= {"known": True, "note": f"{reason} ({fault})"}
            elif reason:
                line["note"] = f"passes now, though this was known: {reason}"
            if not line["ok"] and not line.get("known"):
                self.failed += 1
            print(json.dumps(line, ensure_ascii=False), flush=True)

        return run

    def end(self):
        # Threads of steps that never ended, and those of clients, do not keep the process.
        sys.stdout.flush()
        os._exit(1 if self.failed else 0)


def _outcome(function):
    found = []

    def run():
        try:
            function()
        except BaseException as error:  # what a step raises is its outcome
            place = next((f for f in reversed(traceback.extract_tb(error.__traceback__)) if f.filename == function.__code__.co_filename), None)
            at = f" at line {place.lineno}: {place.line}" if place else ""
            found.append(f"{type(error).__name__}: {error}{at}")

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(SECONDS)
    if thread.is_alive():
        return f"not done after {SECONDS} s"
    return found[0] if found else None


def equal(found, expected, what="value"):
    if found != expected:
        raise AssertionError(f"{what}: expected {expected!r}, found {found!r}")


def refused(part, function):
    """The error that a function ends with, whose text has to hold a part."""
    try:
        function()
    except Exception as error:
        if part.lower() not in str(error).lower():
            raise AssertionError(f"expected an error with {part!r}, found {error}") from error
        return error
    raise AssertionError(f"expected an error with {part!r}, found none")
