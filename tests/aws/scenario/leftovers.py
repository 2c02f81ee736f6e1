"""Checks that nothing is left on the platform after Terraform destroyed everything."""

import sys
import time

import boto3
from checks import Checks
from misfortune import localstack_pid, processes


def names(service, operation, field, name):
    pages = boto3.client(service)
    paged = pages.get_paginator(operation).paginate() if pages.can_paginate(operation) else [getattr(pages, operation)()]
    return [item if name is None else item[name] for page in paged for item in page.get(field, [])]


KINDS = {
    "buckets": ("s3", "list_buckets", "Buckets", "Name"),
    "functions": ("lambda", "list_functions", "Functions", "FunctionName"),
    "event source mappings": ("lambda", "list_event_source_mappings", "EventSourceMappings", "UUID"),
    "queues": ("sqs", "list_queues", "QueueUrls", None),
    "roles": ("iam", "list_roles", "Roles", "RoleName"),
    "log groups": ("logs", "describe_log_groups", "logGroups", "logGroupName"),
    "rules": ("events", "list_rules", "Rules", "Name"),
    "alarms": ("cloudwatch", "describe_alarms", "MetricAlarms", "AlarmName"),
    "topics": ("sns", "list_topics", "Topics", "TopicArn"),
}


def main():
    checks = Checks()
    with checks.part("nothing is left"):
        for kind, where in KINDS.items():
            checks.equal(kind, names(*where), [])
        until = time.monotonic() + 10
        while (left := processes(localstack_pid())) and time.monotonic() < until:
            time.sleep(0.2)
        checks.equal("processes of functions", left, [])
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
