"""The queue as a FIFO queue: messages of a group are stored in order, even if one fails."""

import sys
import time
import uuid

import messages
from checks import Checks
from deployment import Deployment

GROUPS, MESSAGES = 4, 15
SECONDS = 60


def send(deployment, group, bodies):
    for first in range(0, len(bodies), 10):
        entries = [
            {
                **messages.entry(number, body, {"precision": "ms"}),
                "MessageGroupId": group,
                "MessageDeduplicationId": str(uuid.uuid4()),
            }
            for number, body in enumerate(bodies[first : first + 10])
        ]
        reply = deployment.aws("sqs").send_message_batch(QueueUrl=deployment.queue_url, Entries=entries)
        if reply.get("Failed"):
            raise RuntimeError(f"the queue did not take all: {reply['Failed']}")


def row(group, number):
    """All messages of a group write the same row: the last one wins."""
    return f"fifo,client={group} v={number}i 1700000000000"


def found(group):
    return f"select v from {messages.DATABASE}.fifo where client = '{group}'"


def order(deployment, checks):
    groups = [f"group-{n}" for n in range(GROUPS)]
    for group in groups:
        send(deployment, group, [row(group, number) for number in range(MESSAGES)])
    for group in groups:
        last = [[MESSAGES - 1]]
        checks.equal(f"the last message of {group} is stored last", messages.eventually(deployment, found(group), last, SECONDS), last)


def poison(deployment, checks):
    """Messages after one that cannot be stored may fail with it: then they are dead letters, not lost."""
    bad = "fifo,client=poisoned v="
    send(deployment, "poisoned", [row("poisoned", 1), bad, row("poisoned", 3)])
    send(deployment, "healthy", [row("healthy", 1), row("healthy", 2)])
    checks.equal("another group goes on", messages.eventually(deployment, found("healthy"), [[2]], SECONDS), [[2]])
    dead, until = [], time.monotonic() + SECONDS
    while time.monotonic() < until:
        dead += [message["Body"] for message in messages.dead_letters(deployment)]
        if bad in dead and not messages.waiting(deployment, deployment.queue_url):
            break
        time.sleep(0.5)
    checks.equal("the message that cannot be stored is a dead letter once", dead.count(bad), 1)
    send(deployment, "poisoned", [body for body in dead if body != bad])
    checks.equal("nothing after it is lost", messages.eventually(deployment, found("poisoned"), [[3]], SECONDS), [[3]])


def main():
    checks, deployment = Checks(), Deployment.of_environment()
    with checks.part("a FIFO queue"):
        checks.true("it is one", deployment.queue_url.endswith(".fifo"), deployment.queue_url)
        order(deployment, checks)
        poison(deployment, checks)
    checks.tell(f"{checks.passed} checks passed, {len(checks.failed)} failed")
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
