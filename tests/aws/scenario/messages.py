"""The queue: sends messages, waits until all are stored, and handles dead letters."""

import base64
import gzip
import json
import time

import oracle
from background import Background

#: Default database of messages, as deployed.
DATABASE = "db"


def attribute(text):
    return {"DataType": "String", "StringValue": text}


def entry(number, body, attributes):
    return {
        "Id": str(number),
        "MessageBody": body if isinstance(body, str) else body.decode(),
        "MessageAttributes": {name: attribute(text) for name, text in attributes.items()},
    }


def send(deployment, entries):
    """Sends up to ten messages; returns their IDs when all are accepted."""
    reply = deployment.aws("sqs").send_message_batch(QueueUrl=deployment.queue_url, Entries=entries)
    if reply.get("Failed"):
        raise RuntimeError(f"the queue did not take all: {reply['Failed']}")
    ids = {taken["Id"]: taken["MessageId"] for taken in reply["Successful"]}
    return [ids[given["Id"]] for given in entries]


def waiting(deployment, url):
    """Number of messages in a queue or in flight."""
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessagesDelayed"]
    found = deployment.aws("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    return sum(int(found[name]) for name in names)


def dead_letters(deployment):
    """Receives and deletes the dead letters."""
    sqs, taken = deployment.aws("sqs"), []
    while True:
        found = sqs.receive_message(
            QueueUrl=deployment.dead_letter_url, MaxNumberOfMessages=10, MessageAttributeNames=["All"], WaitTimeSeconds=0
        ).get("Messages", [])
        if not found:
            return taken
        for message in found:
            sqs.delete_message(QueueUrl=deployment.dead_letter_url, ReceiptHandle=message["ReceiptHandle"])
        taken += found


class Redrive(Background):
    """Resends dead letters, as an operator does: functions killed twice during a message make it a dead letter."""

    def __init__(self, deployment):
        super().__init__()
        self.deployment, self.times = deployment, 0

    def run(self):
        while not self.over.wait(0.5):
            self.once()

    def once(self):
        dead = dead_letters(self.deployment)
        for message in dead:
            given = {name: value["StringValue"] for name, value in message.get("MessageAttributes", {}).items()}
            send(self.deployment, [entry(0, message["Body"], given)])
        self.times += len(dead)
        return dead

    def drain(self, within):
        """Waits until both queues are empty."""
        until, quiet = time.monotonic() + within, 0
        while quiet < 3:
            is_left = self.once() or waiting(self.deployment, self.deployment.queue_url)
            quiet = 0 if is_left else quiet + 1
            if time.monotonic() > until:
                raise RuntimeError(f"messages are still in the queue after {within} s; {self.times} were sent again")
            time.sleep(0.3)


def recorded(ids, bodies, attributes):
    """The platform's event of these messages."""
    given = {name: {"stringValue": text, "dataType": "String"} for name, text in attributes.items()}
    return {
        "Records": [
            {
                "messageId": message_id,
                "receiptHandle": "handle",
                "body": body,
                "attributes": {"ApproximateReceiveCount": "2", "SentTimestamp": "1700000000000"},
                "messageAttributes": given,
                "md5OfBody": "",
                "eventSource": "aws:sqs",
                "eventSourceARN": "arn:aws:sqs:us-east-1:000000000000:tidelake-ingest-queue",
                "awsRegion": "us-east-1",
            }
            for message_id, body in zip(ids, bodies)
        ]
    }


def deliver(deployment, event, within=150):
    """Invokes the function directly with an event until it reports no failed message."""
    until = time.monotonic() + within
    while True:
        answer, is_error = deployment.invoke("ingest-queue", event)
        if not is_error and answer == {"batchItemFailures": []}:
            return answer
        if time.monotonic() > until:
            return answer
        time.sleep(0.5)


def eventually(deployment, sql, expected, within=90):
    """The rows of a statement, when they are as expected or the time is over."""
    until = time.monotonic() + within
    while True:
        try:
            found = deployment.rows(sql)
        except AssertionError as error:  # no such table yet
            found = str(error)
        if found == expected or time.monotonic() > until:
            return found
        time.sleep(0.3)


def formats(deployment, checks):
    """One message of each format, and a compressed one, selected by attributes."""
    packed = base64.b64encode(gzip.compress(b"packed,client=c1 v=7i 1700000000000")).decode()
    statement = "insert into d9 using m tags (9) values (1700000000000, 90)"
    points = json.dumps([{"metric": "points", "timestamp": 1_700_000_000, "value": 3.5, "tags": {"room": "z"}}])
    with checks.part("formats of messages"):
        send(
            deployment,
            [
                entry(0, "line,client=c1 v=6i 1700000000000000", {"precision": "us", "db": "attributed"}),
                entry(1, packed, {"content-encoding": "gzip"}),
                entry(2, points, {"format": "opentsdb"}),
                entry(3, statement, {"format": "tdengine", "db": "site"}),
            ],
        )
        for name, sql, expected in (
            ("line protocol", "select v from attributed.line where ts = '2023-11-14 22:13:20'", [[6]]),
            ("gzip", f"select v from {DATABASE}.packed", [[7]]),
            ("OpenTSDB", f"select value from {DATABASE}.points", [[3.5]]),
            ("TDengine SQL", "select v, area from site.m where tbname = 'd9'", [[90, 9]]),
        ):
            checks.equal(f"a message of {name} is stored", eventually(deployment, sql, expected), expected)


def copies(deployment, checks):
    """A redelivered message writes nothing, even if its rows were overwritten meanwhile."""
    with checks.part("messages that come again"):
        given = {"precision": "ms"}

        def event(message_id, number):
            return recorded([message_id], [f"again,client=c1 v={number}i 1700000000000"], given)

        sql = f"select v from {DATABASE}.again"
        for message_id, number, expected in (("first", 1, 1), ("first", 1, 1), ("second", 2, 2), ("first", 1, 2)):
            answer = deliver(deployment, event(message_id, number))
            checks.equal(f"message {message_id} is taken", answer, {"batchItemFailures": []})
            wanted = [[expected]]
            checks.equal(f"after {message_id} there is", eventually(deployment, sql, wanted), wanted)


def poison(deployment, checks):
    """A message that cannot be stored becomes a dead letter; the other messages of the batch are stored."""
    with checks.part("a poison message"):
        bodies = ["beside,client=c1 v=1i 1700000000001", "beside,client=c1 v=", "beside,client=c1 v=2i 1700000000002"]
        given = {"precision": "ms"}
        ids = send(deployment, [entry(number, body, given) for number, body in enumerate(bodies)])
        sql, expected = f"select v from {DATABASE}.beside order by v", [[1], [2]]
        checks.equal("its neighbours are stored", eventually(deployment, sql, expected), expected)
        dead, until = [], time.monotonic() + 120
        while not dead and time.monotonic() < until:
            time.sleep(0.5)
            dead = dead_letters(deployment)
        while waiting(deployment, deployment.queue_url) and time.monotonic() < until:
            time.sleep(0.3)
        dead += dead_letters(deployment)
        checks.equal("it alone is a dead letter", [message["Body"] for message in dead], [bodies[1]])
        checks.equal("nothing is left in the queue", waiting(deployment, deployment.queue_url), 0)
        return ids[1]


class Sender:
    """Sends messages of 20 rows, and records which were accepted."""

    def __init__(self, deployment, client, messages):
        self.deployment, self.client, self.messages = deployment, client, messages
        self.ids, self.bodies = [], []
        self.given = {"precision": "ms"}

    def run(self):
        for first in range(0, self.messages, 5):
            bodies = [oracle.lines("sent", self.client, n).decode() for n in range(first, min(first + 5, self.messages))]
            self.ids += send(self.deployment, [entry(n, body, self.given) for n, body in enumerate(bodies)])
            self.bodies += bodies
            time.sleep(0.2)
