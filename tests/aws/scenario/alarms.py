"""Tests the alarms created by Terraform with the metrics and log lines of functions about a corrupt object.

CloudWatch extracts a function's metrics from its log lines; LocalStack does not, so they are sent here. Alarms are evaluated once
per period, which is minutes: copies with a shorter period are raised sooner and notify the same topic.
"""

import datetime
import json
import sys
import time

from checks import Checks
from deployment import Deployment

#: Period of the copies, in seconds.
PERIOD = 10
#: Age of the oldest segment at which the log is behind (infra/examples/localstack).
LAG_SECONDS = 60
#: Time limit for all alarms.
WITHIN = 240
#: Attributes of an alarm without name and period.
PARTS = (
    "AlarmDescription", "Namespace", "MetricName", "Dimensions", "Statistic", "EvaluationPeriods", "ComparisonOperator",
    "Threshold", "TreatMissingData", "AlarmActions", "OKActions",
)  # fmt: skip
COPY = "-soon"


class Copies:
    """Copies of alarms, and a queue subscribed to their topic."""

    def __init__(self, deployment, alarms):
        self.cloudwatch, self.sqs, self.sns = (deployment.aws(name) for name in ("cloudwatch", "sqs", "sns"))
        self.alarms = alarms

    def __enter__(self):
        (topic,) = {action for alarm in self.alarms for action in alarm["AlarmActions"]}
        self.queue = self.sqs.create_queue(QueueName="alarms")["QueueUrl"]
        arn = self.sqs.get_queue_attributes(QueueUrl=self.queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        self.heard = self.sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn, ReturnSubscriptionArn=True)
        for alarm in self.alarms:
            parts = {part: alarm[part] for part in PARTS if part in alarm}
            self.cloudwatch.put_metric_alarm(AlarmName=alarm["AlarmName"] + COPY, Period=PERIOD, **parts)
        return self

    def __exit__(self, *_):
        self.cloudwatch.delete_alarms(AlarmNames=[alarm["AlarmName"] + COPY for alarm in self.alarms])
        self.sns.unsubscribe(SubscriptionArn=self.heard["SubscriptionArn"])
        self.sqs.delete_queue(QueueUrl=self.queue)

    def rung(self):
        """Names of the alarms raised since the last call."""
        names = []
        while found := self.sqs.receive_message(QueueUrl=self.queue, MaxNumberOfMessages=10).get("Messages", []):
            for message in found:
                self.sqs.delete_message(QueueUrl=self.queue, ReceiptHandle=message["ReceiptHandle"])
                told = json.loads(json.loads(message["Body"])["Message"])
                if told["NewStateValue"] == "ALARM":
                    names.append(told["AlarmName"].removesuffix(COPY))
        return names


class Counts:
    """Sends the functions' metrics, as CloudWatch extracts them from log lines."""

    def __init__(self, deployment):
        self.deployment, self.since, self.seen = deployment, int(time.time() * 1000), set()

    def hand_on(self):
        logs, cloudwatch = self.deployment.aws("logs"), self.deployment.aws("cloudwatch")
        for group in self.deployment.log_groups.values():
            pages = logs.get_paginator("filter_log_events").paginate(logGroupName=group, startTime=self.since)
            for event in (event for page in pages for event in page["events"]):
                if event["eventId"] in self.seen or '"_aws"' not in event["message"]:
                    continue
                self.seen.add(event["eventId"])
                line = json.loads(event["message"])
                at = datetime.datetime.fromtimestamp(line["_aws"]["Timestamp"] / 1000, datetime.UTC)
                for directive in line["_aws"]["CloudWatchMetrics"]:
                    data = [
                        {
                            "MetricName": metric["Name"],
                            "Unit": metric["Unit"],
                            "Value": line[metric["Name"]],
                            "Timestamp": at,
                            "Dimensions": [{"Name": name, "Value": line[name]} for name in names],
                        }
                        for metric in directive["Metrics"]
                        for names in directive["Dimensions"]
                    ]
                    cloudwatch.put_metric_data(Namespace=directive["Namespace"], MetricData=data)


def corrupt_segment(deployment):
    """Puts an invalid segment of a nonexistent writer into the log; returns its key."""
    reply, _ = deployment.ingest.send_again("/write?db=alarms&precision=ms", b"m v=1 1700000000000")
    if reply.status != 204:
        raise AssertionError(f"{reply.status} {reply.data[:200]!r}")
    _, writer, number = deployment.objects("log/")[0].split("/")
    key = f"{deployment.prefix}/log/{'0' * len(writer)}/{'0' * len(number)}"
    deployment.aws("s3").put_object(Bucket=deployment.bucket, Key=key, Body=b"not a segment")
    return key


def run(deployment, checks):
    made = {alarm["AlarmName"]: alarm for alarm in deployment.aws("cloudwatch").describe_alarms()["MetricAlarms"]}
    functions = deployment.functions
    (lag,), (corrupt,) = ([name for name in made if name.endswith(end)] for end in ("-log-lag", "-corrupt"))
    loud = {f"{functions['query-http']}-failures", f"{functions['compact']}-failures", corrupt, lag}
    silent = {f"{functions['ingest-http']}-failures", f"{functions['ingest-queue']}-failures"}
    checks.equal("the alarms are there", [name for name in sorted(loud | silent) if name not in made], [])
    checks.equal("the log counts as behind from this number of seconds", made[lag]["Threshold"], LAG_SECONDS)
    counts, rung = Counts(deployment), {}
    with Copies(deployment, [made[name] for name in sorted(loud | silent)]) as copies:
        checks.equal("nothing rings before", copies.rung(), [])
        key, begun = corrupt_segment(deployment), time.monotonic()
        refused = set()
        while time.monotonic() < begun + WITHIN and not loud <= rung.keys():
            reply, _ = deployment.query.send_again("/api/v1/sql", b"select count(*) from alarms.m")
            refused.add((reply.status, json.loads(reply.data)["error"]["kind"]) if reply.status != 200 else 200)
            _, is_error = deployment.invoke("compact", {"task": "fold"})
            counts.hand_on()
            for name in copies.rung():
                rung.setdefault(name, time.monotonic() - begun)
            time.sleep(2)
        checks.true("a query that may need the object fails", (500, "corrupt") in refused, refused)
        for name in sorted(loud):
            checks.true(f"{name} rings", name in rung, rung)
        checks.equal("no other one does", sorted(rung.keys() - loud), [])
        checks.true("the log is behind when it is, not before", rung.get(lag, 0) > LAG_SECONDS, rung)
        deployment.aws("s3").delete_object(Bucket=deployment.bucket, Key=key)
        done, is_error = deployment.invoke("compact", {"task": "fold"})
        checks.true("without the object the log is folded", not is_error, done)


def main():
    checks = Checks()
    with checks.part("alarms ring by what the functions say"):
        run(Deployment.of_environment(), checks)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
