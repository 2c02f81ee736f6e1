"""Clients of the URL and senders to the queue, while functions are killed, frozen and time out."""

import os
import time
from concurrent.futures import ThreadPoolExecutor

import load
import messages
import oracle
from misfortune import Fate, Misfortune, localstack_pid

SEED = int(os.environ.get("TIDELAKE_SEED", "20240607"))
CLIENTS, REQUESTS, MESSAGES = 6, 50, 150
QUEUE_CLIENT = 100


class Client:
    """Writes requests of 20 rows in sequence, and sometimes queries all acknowledged rows."""

    def __init__(self, deployment, number):
        self.deployment, self.number = deployment, number
        self.acknowledged, self.sent, self.faults = [], 0, []

    def run(self):
        for request in range(REQUESTS):
            body = oracle.lines("storm", self.number, request)
            reply, times = self.deployment.ingest.send_again("/write?db=storm&precision=ms", body)
            self.sent += times
            if reply.status != 204:
                self.faults.append(f"request {request}: {reply.status} {reply.data[:200]!r}")
                continue
            self.acknowledged.append(request)
            if request % 5 == 4:
                self.look(reply.headers["x-tidelake-token"])

    def look(self, token):
        """With the token of the last write all rows of this client must be present: they were acknowledged before."""
        found = self.deployment.value(f"select count(*) from storm.storm where client = 'c{self.number}'", token)
        expected = oracle.ROWS * len(self.acknowledged)
        if found != expected:
            self.faults.append(f"with its token a client sees {found} rows, expected {expected}")


def run(deployment, checks):
    """Returns the senders to the queue and the numbers of requests and messages."""
    clients = [Client(deployment, number) for number in range(CLIENTS)]
    sender = messages.Sender(deployment, QUEUE_CLIENT, MESSAGES)
    functions = deployment.functions
    fates = {
        functions["ingest-http"]: Fate(likely=6, kills=40, holds=2),
        functions["ingest-queue"]: Fate(likely=3, kills=3, holds=1),
        functions["query-http"]: Fate(likely=2, kills=10, holds=0),
        functions["compact"]: Fate(likely=2, kills=3, holds=0),
    }
    with checks.part("a storm of requests and messages"):
        told = {}

        def loads():
            # The first half of the second client's rows are those of the first: it has all rows when the queue has delivered.
            for name, work in (("queue", load.send_to_queue), ("HTTP", load.write)):
                try:
                    told[name] = work(deployment)
                except Exception as error:
                    checks.fail(f"load test: {name}", f"{type(error).__name__}: {error}")

        redrive = messages.Redrive(deployment)
        with (
            redrive,
            Misfortune(localstack_pid(), SEED, fates) as misfortune,
            ThreadPoolExecutor(CLIENTS + 2) as threads,
        ):
            work = [threads.submit(client.run) for client in clients] + [threads.submit(sender.run), threads.submit(loads)]
            for future in work:
                future.result()
            # Some messages are not delivered yet, and deliveries fail too.
            until = time.monotonic() + 8
            while time.monotonic() < until and messages.waiting(deployment, deployment.queue_url):
                time.sleep(0.2)
        for name, text in told.items():
            checks.tell(f"        load test, {name}: {text}")
        checks.tell(f"        seed {SEED}: {misfortune.told()}")
        faults = [fault for client in clients for fault in client.faults]
        checks.equal("every request is acknowledged, and seen with its token", faults, [])
        for name, least in (("ingest-http", 5), ("ingest-queue", 1)):
            checks.true(f"{name} was killed or out of time", misfortune.count(functions[name]) >= least, misfortune.happened)
        sent = sum(client.sent for client in clients) + load.DEVICES * load.ROWS // 1000
        queued = len(sender.ids) + load.DEVICES * load.QUEUE_ROWS // 100
        checks.true("500 requests and messages and more", sent + queued >= 500, sent + queued)
        checks.tell(f"        {sent} requests, {queued} messages")
    with checks.part("the queue is emptied"):
        redrive.drain(240)
        checks.tell(f"        {redrive.times} dead letters sent again: their functions were killed twice")
    return {client.number: client.acknowledged for client in clients}, sender


def copies(deployment, checks, sender):
    """The first messages once more, past the queue and twice, after all of it was folded. One whose function was killed
    between its claim and its rows is taken a minute after that."""
    with checks.part("what was recorded is delivered twice again"):
        for _ in range(2):
            for first in range(0, 30, 10):
                part = slice(first, first + 10)
                event = messages.recorded(sender.ids[part], sender.bodies[part], sender.given)
                answer = messages.deliver(deployment, event)
                checks.equal("a copy of a message is no failure", answer, {"batchItemFailures": []})


def compare(ask, checks, name, acknowledged, sender):
    """Every acknowledged row once, by `ask`, a function from SQL to rows; counts and sums alike."""
    expected = {}
    for number, requests in acknowledged.items():
        expected |= oracle.series(number, requests)
    queued = oracle.series(QUEUE_CLIENT, range(len(sender.ids)))
    for table, rows in (("storm.storm", expected), (f"{messages.DATABASE}.sent", queued)):
        checks.rows(f"{table} {name}", oracle.found(ask(f"select client, ts, v from {table}")), rows)
        found = ask(f"select count(*), sum(v) from {table}")
        checks.equal(f"count and sum of {table} {name}", found, [[len(rows), sum(rows.values())]])
