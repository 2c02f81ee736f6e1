"""The deployment: Terraform's outputs, the functions' URLs, the platform's API."""

import json
import os
import time
import urllib.parse

import boto3
import urllib3

#: Statuses of the platform when a function died, timed out or could not start.
NO_ANSWER = (502, 504)
#: Statuses after which a request may be retried.
BUSY = (429, 503)
TEXT = "text/plain; charset=utf-8"


class NoAnswer(Exception):
    """A request ended without a response; its outcome is unknown."""


class Url:
    """A function URL. Its host name is not resolvable here, so it is sent as a header."""

    def __init__(self, url, gateway, authorization=None):
        self.host = urllib.parse.urlsplit(url).netloc
        self.authorization = authorization
        host, port = gateway.removeprefix("http://").split(":")
        self.gateway = gateway
        self.pool = urllib3.HTTPConnectionPool(host, int(port), maxsize=32, retries=False, timeout=90)

    def send(self, target, body=b"", headers=(), method="POST"):
        """Sends one request; returns the response with any status, or raises NoAnswer."""
        given = {"host": self.host, "content-type": TEXT, **dict(headers)}
        if self.authorization and "authorization" not in given:
            given["authorization"] = self.authorization
        try:
            reply = self.pool.request(method, target, body=body or None, headers=given, redirect=False)
        except urllib3.exceptions.HTTPError as error:
            raise NoAnswer(repr(error)) from error
        if reply.status in NO_ANSWER:
            raise NoAnswer(f"{reply.status} {reply.data[:200]!r}")
        return reply

    def send_again(self, target, body=b"", headers=(), method="POST", within=180):
        """Sends a request until it is answered, like a client that may resend its rows; also returns the number of attempts."""
        until, wait, times = time.monotonic() + within, 0.05, 0
        while True:
            times += 1
            try:
                reply = self.send(target, body, headers, method)
                if reply.status not in BUSY or time.monotonic() > until:
                    return reply, times
            except NoAnswer:
                if time.monotonic() > until:
                    raise
            time.sleep(wait)
            wait = min(2 * wait, 1)


class Deployment:
    def __init__(self, outputs, gateway, authorization):
        self.outputs, self.gateway, self.authorization = outputs, gateway, authorization
        self.bucket, self.store = outputs["bucket"], outputs["store_url"]
        self.prefix = self.store.removeprefix(f"s3://{self.bucket}/")
        self.functions, self.log_groups = outputs["functions"], outputs["log_groups"]
        self.ingest = Url(outputs["ingest_url"], gateway, authorization)
        self.query = Url(outputs["query_url"], gateway, authorization)
        self.queue_url, self.dead_letter_url = outputs["queue_url"], outputs["dead_letter_url"]
        self.clients = {}

    @classmethod
    def of_environment(cls):
        with open(os.environ["TIDELAKE_OUTPUTS"]) as file:
            outputs = {name: output["value"] for name, output in json.load(file).items()}
        return cls(outputs, os.environ["AWS_ENDPOINT_URL"], os.environ.get("TIDELAKE_AUTHORIZATION"))

    def aws(self, service):
        if service not in self.clients:
            self.clients[service] = boto3.client(service)
        return self.clients[service]

    def rows(self, sql, token=None):
        """The rows of a statement from the query function, as lists of values; retried without response."""
        return rows_of(self.query, sql, token)

    def value(self, sql, token=None):
        return self.rows(sql, token)[0][0]

    def invoke(self, function, event):
        """A direct invocation; returns the response and whether it is an error."""
        reply = self.aws("lambda").invoke(FunctionName=self.functions[function], Payload=json.dumps(event))
        return json.loads(reply["Payload"].read() or b"null"), "FunctionError" in reply

    def objects(self, under):
        """The keys under a prefix of the root."""
        pages = self.aws("s3").get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=f"{self.prefix}/{under}")
        return [item["Key"].removeprefix(f"{self.prefix}/") for page in pages for item in page.get("Contents", [])]

    def log_lines(self, function):
        """Log lines of a function, oldest first."""
        logs = self.aws("logs").get_paginator("filter_log_events")
        pages = logs.paginate(logGroupName=self.log_groups[function])
        return [event["message"].rstrip("\n") for page in pages for event in page["events"]]


def rows_of(url, sql, token=None):
    """The rows of a statement at `/api/v1/sql` of a function or server; follows the link of a large result."""
    headers = {"content-type": "application/json"}
    if token:
        headers["x-tidelake-token"] = token
    reply, _ = url.send_again("/api/v1/sql", json.dumps({"sql": sql}).encode(), headers)
    data = reply.data
    if reply.status == 303:
        link = urllib.parse.urlsplit(reply.headers["location"])
        if f"{link.scheme}://{link.netloc}" != url.gateway:
            raise AssertionError(f"a large answer is at {link.netloc}, not at {url.gateway}")
        data = url.pool.request("GET", f"{link.path}?{link.query}").data
    elif reply.status != 200:
        raise AssertionError(f"{sql}: {reply.status} {reply.data[:300]!r}")
    return json.loads(data)["data"]
