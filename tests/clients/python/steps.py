"""Runs named steps, each with a deadline, and prints each result as one line of JSON."""

import json
import os
import sys
import threading
import traceback
from urllib.parse import urlsplit

SECONDS = 90


class Target:
    """A server and the credentials for it."""

    def __init__(self, variable="CLIENT_URL"):
        url = urlsplit(os.environ[variable])
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
        return text_of(self.authority)


def text_of(path):
    with open(path) as file:
        return file.read()


class Steps:
    def __init__(self, client):
        self.client = client
        self.failed = 0

    def step(self, name):
        """Decorator that runs the function at once."""

        def run(function):
            fault = _outcome(function)
            self._line(name, fault is None, fault or "")

        return run

    def known(self, name, reason, says):
        """Runs the function on the server and on the reference server: the client must fail on both with the same fault."""

        def run(function):
            fault = _outcome(lambda: function(Target()), function)
            if fault is None:
                return self._line(name, False, f"passes now, though this was known: {reason}")
            if says not in fault:
                return self._line(name, False, f"fails otherwise than known, without {says!r}: {fault}")
            there = _outcome(lambda: function(Target("CLIENT_REFERENCE")), function)
            if there is None:
                return self._line(name, False, f"the other server does not show it: {fault}")
            if says not in there:
                return self._line(name, False, f"the other server shows another fault, without {says!r}: {there}")
            self._line(name, False, f"{reason} ({fault})", known=True, there=there)

        return run

    def _line(self, name, ok, note, **more):
        if not ok and "known" not in more:
            self.failed += 1
        print(json.dumps({"client": self.client, "step": name, "ok": ok, "note": note} | more, ensure_ascii=False), flush=True)

    def end(self):
        # Threads of hanging steps and of clients must not keep the process alive.
        sys.stdout.flush()
        os._exit(1 if self.failed else 0)


def _outcome(function, written=None):
    """The fault of a function, with its line in the step's function."""
    file = (written or function).__code__.co_filename
    found = []

    def run():
        try:
            function()
        except BaseException as error:  # what a step raises is its outcome
            place = next((f for f in reversed(traceback.extract_tb(error.__traceback__)) if f.filename == file), None)
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
    """The error of a function, whose text must contain a part."""
    try:
        function()
    except Exception as error:
        if part.lower() not in str(error).lower():
            raise AssertionError(f"expected an error with {part!r}, found {error}") from error
        return error
    raise AssertionError(f"expected an error with {part!r}, found none")
