"""A server on 127.0.0.1 that ends with who started it, and what a client needs to get in."""

import base64
import json
import os
import re
import secrets
import signal
import ssl
import subprocess
import time
import urllib.request

START_SECONDS = 60


class Server:
    def __init__(self, binary, name, directory, *options):
        self.log = os.path.join(directory, f"{name}.log")
        store = os.path.join(directory, f"{name}.store")
        environment = {k: v for k, v in os.environ.items() if not k.startswith("TIDELAKE_")}
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [binary, "serve", "--store", store, "--listen", "127.0.0.1:0", *options],
                stdout=log, stderr=log, cwd=directory, env=environment, start_new_session=True,
            )
        self.url = self._url(name)

    def _url(self, name):
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            with open(self.log) as log:
                found = re.search(r"HTTP +(https?://127\.0\.0\.1:\d+)\s", log.read())
            if found:
                return found[1]
            time.sleep(0.1)
        self.stop()
        with open(self.log) as log:
            raise SystemExit(f"the server '{name}' did not start:\n{log.read()[-4000:]}")

    def stop(self):
        end(self.process)


class Keys:
    """The password of a server's first user, and the certificate for its TLS."""

    def __init__(self, directory):
        self.certificate, self.key = certificate(directory)
        self.password = secrets.token_urlsafe(16)
        self.file = os.path.join(directory, "password")
        with open(self.file, "w") as out:
            out.write(self.password)

    def auth(self):
        return ["--auth", "on", "--admin-password-file", self.file]

    def tls(self):
        return [*self.auth(), "--tls-certificate", self.certificate, "--tls-key", self.key]

    def token(self, url, name):
        """A new token of that user."""
        return statement(url, self.password, f"create token {name} for admin", self.certificate if url.startswith("https") else None)


def end(process):
    """Ends a process and all that it started: asked first, then told."""
    for number, seconds in [(signal.SIGTERM, 10), (signal.SIGKILL, 10)]:
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            continue


def statement(url, password, sql, authority=None):
    """The value of a statement's single row, by HTTP."""
    credentials = base64.b64encode(f"admin:{password}".encode()).decode()
    request = urllib.request.Request(f"{url}/api/v1/sql", data=sql.encode(), headers={"authorization": f"Basic {credentials}"})
    context = ssl.create_default_context(cafile=authority) if authority else None
    with urllib.request.urlopen(request, timeout=30, context=context) as reply:
        return json.load(reply)["data"][0][0]


def certificate(directory):
    """A certificate for localhost and its key, which signs itself."""
    key, pem = os.path.join(directory, "server.key"), os.path.join(directory, "server.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30", "-keyout", key, "-out", pem,
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE"],
        check=True, capture_output=True,
    )
    return pem, key
