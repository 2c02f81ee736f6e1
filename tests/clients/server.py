"""Servers on 127.0.0.1 that end with their starter, and credentials for clients."""

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
NEW_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]


class Server:
    """A server with its own store."""

    def __init__(self, binary, name, directory, *options):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("TIDELAKE_")}
        self.store = os.path.join(directory, f"{name}.store")
        self._start([binary, "serve", "--store", self.store, "--listen", "127.0.0.1:0", *options], name, directory, environment, r"HTTP +(https?://\S+)\s")

    def _start(self, command, name, directory, environment, shown):
        """Starts a program that prints its URL in this form."""
        path = self.log = os.path.join(directory, f"{name}.log")
        with open(path, "w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=directory, env=environment, start_new_session=True)
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            with open(path) as log:
                found = re.search(shown, log.read())
            if found:
                self.url = found[1]
                return
            time.sleep(0.1)
        self.stop()
        with open(path) as log:
            raise SystemExit(f"the server '{name}' did not start:\n{log.read()[-4000:]}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        end(self.process)


class Reference(Server):
    """The reference server, go/reference.go. It authenticates the user of the environment, if there is one."""

    def __init__(self, program, name, directory, environment):
        self._start([program, "reference"], f"{name}.reference", directory, environment, r"(http://\S+)\s")


class Keys:
    """The first user's password, the server's TLS certificate, and certificates of a client and of an untrusted client."""

    def __init__(self, directory):
        self.certificate, self.key = certificate(directory)
        self.authority, self.client = client_certificate(directory, "client")
        _, self.stranger = client_certificate(directory, "stranger")
        self.password = secrets.token_urlsafe(16)
        self.file = os.path.join(directory, "password")
        with open(self.file, "w") as out:
            out.write(self.password)

    def auth(self):
        return ["--auth", "on", "--admin-password-file", self.file]

    def tls(self):
        return [*self.auth(), "--tls-certificate", self.certificate, "--tls-key", self.key]

    def mutual(self):
        return [*self.tls(), "--tls-client-ca", self.authority]

    def token(self, url, name):
        """A new token of that user."""
        reply = self.answer(f"{url}/api/v1/sql", f"create token {name} for admin".encode())
        return json.loads(reply)["data"][0][0]

    def answer(self, url, body=None):
        return answer(url, self.password, body, self.certificate if url.startswith("https") else None)


def end(process):
    """Ends a process and its children: SIGTERM, then SIGKILL."""
    for number, seconds in [(signal.SIGTERM, 10), (signal.SIGKILL, 10)]:
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            continue


def basic(user, password):
    """A user's HTTP credentials."""
    return base64.b64encode(f"{user}:{password}".encode()).decode()


def answer(url, password, body=None, authority=None):
    """Response to an HTTP request of the first user."""
    request = urllib.request.Request(url, data=body, headers={"authorization": f"Basic {basic('admin', password)}"})
    context = ssl.create_default_context(cafile=authority) if authority else None
    with urllib.request.urlopen(request, timeout=30, context=context) as reply:
        return reply.read()


def signed_by_itself(directory, file, name, *extensions):
    """A certificate and its key."""
    key, pem = os.path.join(directory, f"{file}.key"), os.path.join(directory, f"{file}.pem")
    added = [argument for extension in extensions for argument in ("-addext", extension)]
    openssl("req", "-x509", *NEW_KEY, "-days", "30", "-keyout", key, "-out", pem, "-subj", f"/CN={name}", *added)
    return pem, key


def certificate(directory):
    """A self-signed certificate for localhost and its key."""
    return signed_by_itself(directory, "server", "localhost", "subjectAltName=DNS:localhost,IP:127.0.0.1", "basicConstraints=critical,CA:FALSE")


def client_certificate(directory, file):
    """A CA, and a client certificate with its key. All CAs have one name, because clients withhold certificates of other issuers."""
    authority, signer = signed_by_itself(directory, f"{file}.authority", "authority", "basicConstraints=critical,CA:TRUE")
    key, pem, request, extensions = (os.path.join(directory, f"{file}.{ending}") for ending in ["key", "pem", "csr", "ext"])
    with open(extensions, "w") as out:
        out.write("basicConstraints=critical,CA:FALSE\nextendedKeyUsage=clientAuth\n")
    openssl("req", *NEW_KEY, "-keyout", key, "-out", request, "-subj", "/CN=client")
    openssl("x509", "-req", "-in", request, "-CA", authority, "-CAkey", signer, "-CAcreateserial", "-days", "30", "-extfile", extensions, "-out", pem)
    return authority, (pem, key)


def openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)
