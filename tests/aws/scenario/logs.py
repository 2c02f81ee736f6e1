"""Logs of functions: JSON lines with request IDs, and metrics in CloudWatch's embedded metric format."""

import json
import re
import time

REQUEST = re.compile(r"^START RequestId: (\S+)")
OF_THE_PLATFORM = ("START RequestId: ", "END RequestId: ", "REPORT RequestId: ", "RequestId: ")


def rows_told(lines):
    """The sum of the metric RowsWritten."""
    return sum(json.loads(line).get("RowsWritten", 0) for line in lines if line.startswith('{') and '"_aws"' in line)


def run(deployment, checks, written, poison):
    """`written`: rows that were acknowledged over HTTP; `poison`: the id of a message that could not be stored."""
    with checks.part("logs and metrics"):
        # Logs arrive after responses. Each acknowledged request has reported its rows; a function killed after it had written
        # messages has not, and their redelivered copies wrote nothing.
        until = time.monotonic() + 60
        while (told := rows_told(deployment.log_lines("ingest-http"))) < written and time.monotonic() < until:
            time.sleep(1)
        checks.true(f"ingest-http: metrics count {written} rows and more", told >= written, told)
        for function in ("ingest-http", "ingest-queue", "compact", "query-http"):
            lines = deployment.log_lines(function)
            requests = {match.group(1) for line in lines if (match := REQUEST.match(line))}
            checks.true(f"{function}: there are requests", requests, lines[:3])
            parsed, other = [], []
            for line in lines:
                if line and not line.startswith(OF_THE_PLATFORM):
                    try:
                        parsed.append(json.loads(line))
                    except ValueError:
                        other.append(line)
            checks.equal(f"{function}: every line is JSON", other, [])
            counts = [line for line in parsed if "_aws" in line]
            strange = [line for line in counts if line["RequestId"] not in requests or not is_embedded(line)]
            checks.equal(f"{function}: counts are in the embedded metric format, of a request", strange, [])
            named = {line["FunctionName"] for line in counts}
            checks.true(f"{function}: counts name it", named <= {deployment.functions[function]}, named)
            inside = [line["span"]["request_id"] for line in parsed if "request_id" in line.get("span", {})]
            checks.equal(f"{function}: lines bear the id of a request", [i for i in inside if i not in requests], [])
            if function == "ingest-queue":
                checks.true("ingest-queue: metrics count rows", rows_told(lines) > 0, lines[:5])
                warned = [line for line in parsed if line.get("message_id") == poison]
                about = {(line["level"], "request_id" in line.get("span", {})) for line in warned}
                checks.equal("the poison message is logged", about, {("WARN", True)})
            if function == "ingest-http":
                late = [line for line in lines if "Task timed out" in line]
                checks.true("a function ran out of time", late, "no line says so")


def is_embedded(line):
    """Whether a line is valid embedded metric format."""
    told = line["_aws"]
    directive = told["CloudWatchMetrics"][0]
    names = [metric["Name"] for metric in directive["Metrics"]]
    return (
        isinstance(told["Timestamp"], int)
        and directive["Namespace"] == "Tidelake"
        and directive["Dimensions"] == [["FunctionName"]]
        and all(isinstance(line.get(name), int | float) for name in names)
    )
