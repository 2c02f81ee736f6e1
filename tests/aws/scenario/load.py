"""The load test over the function's URL and over the queue, and whether each of its rows is there."""

import os
import subprocess
import tempfile

import oracle

DEVICES, ROWS = 10, 10_000
QUEUE_ROWS = 2_000
PROGRAM = os.environ["TIDELAKE_LOADTEST_BIN"]


class Failed(Exception):
    """The load test ended with another status than 0."""


def loadtest(*arguments):
    environment = {**os.environ, "RUST_BACKTRACE": "0"}
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, env=environment)
    if done.returncode:
        raise Failed(f"tidelake-loadtest {arguments[0]}: status {done.returncode}: {done.stderr[-600:]}")
    return done.stdout.strip()


def write(deployment):
    """Writes the data set over HTTP: 1000 rows a request, four clients. What was told of it."""
    for tries in range(5):
        try:
            return loadtest(
                *("write", "--url", deployment.gateway, "--host", deployment.ingest.host, "--clients", 4),
                *("--rows-per-request", 1000, "--devices", DEVICES, "--rows", ROWS),
            )
        except Failed as error:
            # It repeats rows, and not the statements before them, which a function that was killed leaves without an answer.
            if tries == 4 or not ("if not exists" in str(error) and "HTTP status 502" in str(error)):
                raise


def send_to_queue(deployment):
    """Sends the first rows of each device to the queue, and waits until a query counts them. What was told of it."""
    return loadtest(
        *("queue", "--queue-url", deployment.queue_url, "--url", deployment.gateway, "--host", deployment.query.host),
        *("--clients", 2, "--rows-per-message", 100, "--devices", DEVICES, "--rows", QUEUE_ROWS),
    )


def generated(rows):
    """The rows that the load test makes, from its text files."""
    with tempfile.TemporaryDirectory() as directory:
        loadtest("generate", "--devices", DEVICES, "--rows", rows, "--dir", directory)
        return oracle.devices(directory)


def compare(ask, checks, name):
    """Every row of the data set, by `ask`, a function from SQL to rows."""
    found = ask("select devid, ts, temperature, humidity from db.devices")
    checks.rows(f"db.devices {name}", oracle.found_devices(found), generated(ROWS))
