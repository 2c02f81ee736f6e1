"""Checks that each role allows exactly the requests of its function: python policies PACKAGES OUTPUTS DIRECTORY."""

import base64
import json
import os
import pathlib
import subprocess
import sys
import time
import urllib.request
import uuid
import zipfile

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError
from policy import Policy
from processes.environment import Environment, Invocation

sys.path.append(str(pathlib.Path(__file__).parent.parent / "scenario"))
from checks import Checks  # noqa: E402 the scenario's
from server import server  # noqa: E402

ENDPOINT = os.environ["AWS_ENDPOINT_URL"]
FUNCTIONS = ("ingest-http", "ingest-queue", "compact", "query-http")
WRITERS = ("ingest-http", "ingest-queue")
#: A task of the module flight is the whole server. Its policy is made of these statements (infra/tests/flight.tftest.hcl), which are
#: among those of `compact` (infra/modules/access).
TASK, TASK_STATEMENTS = "flight", ("ReadRoot", "ListRoot", "WriteAndCollectRoot")
TRUST = json.dumps({
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}],
})
EVERYTHING = json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]})
OTHER_BUCKET = "of-somebody-else"
#: Error text of a function when the platform denies a request.
REFUSALS = ("AccessDenied", "Forbidden", "necessary privileges")


def until_it_answers():
    until = time.monotonic() + 30
    while True:
        try:
            return urllib.request.urlopen(f"{ENDPOINT}/moto-api/", timeout=2).read()
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


class Keys:
    """A caller's credentials."""

    def __init__(self, key, secret, token=None):
        self.key, self.secret, self.token = key, secret, token

    def client(self, service):
        return boto3.client(
            service,
            endpoint_url=ENDPOINT,
            aws_access_key_id=self.key,
            aws_secret_access_key=self.secret,
            aws_session_token=self.token,
            config=Config(retries={"max_attempts": 1}, s3={"addressing_style": "path"}),
        )

    def variables(self):
        return {
            "AWS_ENDPOINT_URL": ENDPOINT,
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_SESSION_TOKEN": self.token or "",
            "AWS_EC2_METADATA_DISABLED": "true",
        }


class Function:
    """A function with its role's keys: the program of its zip, as the platform runs it."""

    def __init__(self, name, zips, directory, outputs, keys, more=()):
        place = pathlib.Path(directory) / name
        with zipfile.ZipFile(pathlib.Path(zips) / f"{name}.zip") as package:
            package.extract("bootstrap", place)
        (place / "bootstrap").chmod(0o755)
        variables = {
            **keys.variables(),
            "TIDELAKE_STORE": outputs["store_url"],
            "AWS_LAMBDA_FUNCTION_NAME": outputs["functions"][name],
            "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "512",
            "AWS_LAMBDA_LOG_GROUP_NAME": outputs["log_groups"][name],
            "AWS_LAMBDA_LOG_STREAM_NAME": "one",
            **dict(more),
        }
        self.environment = Environment(place / "bootstrap", variables, 60)
        self.environment.start()
        self.log = ""

    def invoke(self, event):
        outcome = self.environment.invoke(Invocation(str(uuid.uuid4()), json.dumps(event).encode()))
        self.log += outcome.log
        if outcome.error_type:
            raise RuntimeError(f"{outcome.error_type}: {outcome.message or outcome.body[:300]}")
        return json.loads(outcome.body)

    def http(self, target, body, headers=()):
        """Sends a request in the form of a function URL; returns status and body."""
        path, _, query = target.partition("?")
        event = {
            "version": "2.0",
            "routeKey": "$default",
            "rawPath": path,
            "rawQueryString": query,
            "headers": {"host": "f.lambda-url.us-east-1.on.aws", "content-type": "text/plain", **dict(headers)},
            "requestContext": {
                "accountId": "anonymous",
                "apiId": "f",
                "domainName": "f.lambda-url.us-east-1.on.aws",
                "domainPrefix": "f",
                "http": {
                    "method": "POST",
                    "path": path,
                    "protocol": "HTTP/1.1",
                    "sourceIp": "127.0.0.1",
                    "userAgent": "test",
                },
                "requestId": str(uuid.uuid4()),
                "routeKey": "$default",
                "stage": "$default",
                "time": "01/Jan/2024:00:00:00 +0000",
                "timeEpoch": 1_704_067_200_000,
            },
            "body": body,
            "isBase64Encoded": False,
        }
        reply = self.invoke(event)
        found = reply.get("body") or ""
        if reply.get("isBase64Encoded"):
            found = base64.b64decode(found).decode()
        return reply["statusCode"], found


def roles(policies):
    """Creates a role per policy and turns enforcement on; returns the roles' keys and those of an administrator."""
    anybody = Keys("test", "test")
    iam, sts = anybody.client("iam"), anybody.client("sts")
    iam.create_user(UserName="admin")
    iam.put_user_policy(UserName="admin", PolicyName="everything", PolicyDocument=EVERYTHING)
    key = iam.create_access_key(UserName="admin")["AccessKey"]
    keys = {}
    for name, policy in policies.items():
        arn = iam.create_role(RoleName=name, AssumeRolePolicyDocument=TRUST)["Role"]["Arn"]
        iam.put_role_policy(RoleName=name, PolicyName="function", PolicyDocument=policy)
        given = sts.assume_role(RoleArn=arn, RoleSessionName="test")["Credentials"]
        keys[name] = Keys(given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"])
    request = urllib.request.Request(f"{ENDPOINT}/moto-api/reset-auth", b"0", {"Content-Type": "text/plain"})
    urllib.request.urlopen(request).read()
    return keys, Keys(key["AccessKeyId"], key["SecretAccessKey"])


def functions_work(checks, zips, directory, outputs, keys):
    """Runs the functions, each with its role's keys."""
    functions = {}
    try:
        more = {"ingest-queue": {"TIDELAKE_QUEUE_DATABASE": "q", "TIDELAKE_DEDUP": "true"}}
        for name in FUNCTIONS:
            functions[name] = Function(name, zips, directory, outputs, keys[name], more.get(name, {}))
        ingest, query = functions["ingest-http"], functions["query-http"]
        for target, body, headers in (
            ("/write?db=d&precision=ms", "m,host=a v=1i 1700000000000\nm,host=b v=2i 1700000000000", {}),
            ("/write?db=d&precision=ms", "m,host=c v=3i 1700000000000", {"idempotency-key": "one"}),
            ("/write?db=d&precision=ms", "m,host=c v=3i 1700000000000", {"idempotency-key": "one"}),
        ):
            checks.equal(f"{target} {headers}", ingest.http(target, body, headers), (204, ""))
        for target, sql in (
            ("/rest/sql", "create database w precision 'ms'"),
            ("/rest/sql/w", "create stable m (ts timestamp, v int) tags (site int)"),
            ("/rest/sql/w", "insert into d1 using m tags (1) values (1700000000000, 1) (1700000000001, 2)"),
            ("/rest/sql/w", "insert into d2 using m tags (2) values (1700000000000, 3)"),
            ("/rest/sql/w", "delete from m where tbname = 'd1' and ts = 1700000000001"),
            ("/rest/sql/w", "drop table d2"),
            ("/rest/sql/w", "alter table m add column w int"),
        ):
            status, body = ingest.http(target, sql)
            checks.equal(sql, (status, json.loads(body).get("code")), (200, 0)) or checks.tell(body[:200])
        messages = [
            {
                "messageId": f"message-{n}",
                "receiptHandle": "h",
                "body": f"m v={n}i {1_700_000_000_000_000_000 + n}",
                "attributes": {},
                "messageAttributes": {},
                "md5OfBody": "",
                "eventSource": "aws:sqs",
                "eventSourceARN": "arn:aws:sqs:us-east-1:000000000000:q",
                "awsRegion": "us-east-1",
            }
            for n in range(3)
        ]
        for _ in range(2):
            checks.equal("messages", functions["ingest-queue"].invoke({"Records": messages}), {"batchItemFailures": []})
        sql = "select (select sum(v) from d.m), (select sum(v) from w.m), (select sum(v) from q.m)"
        expected = [[6, 1, 3]]

        def sums(when):
            time.sleep(1.1)  # the staleness that a query may have
            status, body = query.http("/api/v1/sql", sql)
            checks.equal(f"rows {when}", (status, json.loads(body).get("data")), (200, expected)) or checks.tell(body[:300])

        sums("as written")
        status, body = query.http("/api/v1/sql", "select repeat('x', 7000000) as a")
        checks.equal("a large answer", status, 303) or checks.tell(body[:300])
        time.sleep(5)  # younger segments are not folded
        for task in ("full", "collect", "sweep"):
            done = functions["compact"].invoke({"task": task})
            if task == "full":
                checks.true("the log is folded", done["folded_rows"] > 0, done)
        sums("after compaction")
    finally:
        for name, function in functions.items():
            function.environment.stop()
            refused = [line for line in function.log.splitlines() if any(word in line for word in REFUSALS)]
            checks.equal(f"{name} was refused nothing", refused[:2], [])


def tasks_work(checks, directory, outputs, keys):
    """Runs the server with the keys of a task's role: it writes, queries, folds and collects."""
    log = pathlib.Path(directory) / "server.log"
    with open(log, "w") as out, server(outputs["store_url"], {**keys[TASK].variables(), "TIDELAKE_FOLD_INTERVAL": "1s"}, out) as url:
        for target, body in (
            ("/write?db=t&precision=ms", b"m,host=a v=1i 1700000000000\nm,host=b v=2i 1700000000000"),
            ("/rest/sql", b"create database tw precision 'ms'"),
            ("/rest/sql/tw", b"create stable m (ts timestamp, v int) tags (site int)"),
            ("/rest/sql/tw", b"insert into d1 using m tags (1) values (1700000000000, 1) (1700000000001, 2)"),
            ("/rest/sql/tw", b"delete from m where tbname = 'd1' and ts = 1700000000001"),
        ):
            reply = url.send(target, body)
            checks.true(body.decode(), reply.status in (200, 204), reply.data[:300])
        sql = b"select (select sum(v) from t.m), (select sum(v) from tw.m), (select count(*) from system.files where database = 't')"
        until = time.monotonic() + 30
        while True:
            reply = url.send("/api/v1/sql", sql)
            found = json.loads(reply.data).get("data")
            if found == [[3, 1, 1]] or time.monotonic() > until:
                break
            time.sleep(0.5)
        checks.equal("rows, and the file that they were folded into", found, [[3, 1, 1]])
    done = subprocess.run(
        [os.environ["TIDELAKE_BIN"], "compact", "--store", outputs["store_url"]],
        env={**os.environ, **keys[TASK].variables()},
        capture_output=True,
        text=True,
        timeout=60,
    )
    checks.equal("tidelake compact", (done.returncode, done.stderr if done.returncode else ""), (0, ""))
    refused = [line for line in log.read_text().splitlines() if any(word in line for word in REFUSALS)]
    checks.equal("the server was refused nothing", refused[:2], [])


def is_denied(work):
    """Whether the platform denies the request."""
    try:
        work()
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if code in ("AccessDenied", "AccessDeniedException", "403"):
            return True
        if code not in ("NoSuchKey", "404", "PreconditionFailed", "NoSuchUpload", "ResourceNotFoundException"):
            raise
    return False


def objects_are_guarded(checks, outputs, keys, admin):
    """Every kind of object request under every prefix by every role."""
    bucket = outputs["bucket"]
    prefix = outputs["store_url"].removeprefix(f"s3://{bucket}/")
    parts = ("meta", "log", "idem", "clock", "data", "results")
    own = {part: f"{prefix}/{part}/probe" for part in parts}
    beside = (f"{prefix}-2/meta/probe", "elsewhere/meta/probe", "probe")
    store = admin.client("s3")
    all_parts = {name: set(parts) for name in ("compact", TASK)}
    puts = {name: {"meta", "log", "idem", "clock"} for name in WRITERS} | all_parts | {"query-http": {"results"}}
    deletes = {name: {"clock"} for name in WRITERS} | all_parts | {"query-http": set()}
    for name in (*FUNCTIONS, TASK):
        s3 = keys[name].client("s3")

        def refused(what, expected, work):
            checks.equal(f"{name}: {what} is {'refused' if expected else 'allowed'}", is_denied(work), expected)

        places = [(bucket, key, part) for part, key in own.items()]
        places += [(bucket, key, None) for key in beside] + [(OTHER_BUCKET, key, None) for key in own.values()]
        for where, key, part in places:
            store.put_object(Bucket=where, Key=key, Body=b"x")
            place = {"Bucket": where, "Key": key}
            refused(f"GET {where}/{key}", part is None, lambda: s3.get_object(**place))
            refused(f"GET a part of {where}/{key}", part is None, lambda: s3.get_object(**place, Range="bytes=0-0"))
            refused(f"HEAD {where}/{key}", part is None, lambda: s3.head_object(**place))
            refused(f"PUT {where}/{key}", part not in puts[name], lambda: s3.put_object(**place, Body=b"y"))
            refused(
                f"PUT if absent {where}/{key}",
                part not in puts[name],
                lambda: s3.put_object(**place, Body=b"y", IfNoneMatch="*"),
            )
            refused(f"DELETE {where}/{key}", part not in deletes[name], lambda: s3.delete_object(**place))
            store.delete_object(**place)
        refused("LIST of the root", False, lambda: s3.list_objects_v2(Bucket=bucket, Prefix=f"{prefix}/log/"))
        refused("LIST of another bucket", True, lambda: s3.list_objects_v2(Bucket=OTHER_BUCKET))
        refused("the bucket's policy", True, lambda: s3.get_bucket_policy(Bucket=bucket))
        refused("deletion of the bucket", True, lambda: s3.delete_bucket(Bucket=OTHER_BUCKET))
        refused("a look at roles", True, lambda: keys[name].client("iam").list_roles())
    s3, place = keys["query-http"].client("s3"), {"Bucket": bucket, "Key": f"{prefix}/results/large"}
    upload = s3.create_multipart_upload(**place)["UploadId"]
    checks.equal(
        "query-http: an upload that is given up is allowed",
        is_denied(lambda: s3.abort_multipart_upload(**place, UploadId=upload)),
        False,
    )


def the_rest_is_guarded(checks, outputs, policies):
    """Checks what that platform does not enforce, conditions and resources of other services, by evaluating the policies."""
    bucket = f"arn:aws:s3:::{outputs['bucket']}"
    prefix = outputs["store_url"].removeprefix(f"s3://{outputs['bucket']}/")
    account = "us-east-1:000000000000"
    queue, dead = (url.rsplit("/", 1)[1] for url in (outputs["queue_url"], outputs["dead_letter_url"]))
    for name, policy in policies.items():
        function = outputs["functions"][name]

        def check(expected, action, resource, **context):
            what = f"{name}: {action} on {resource} {context or ''}"
            checks.equal(what, policy.allows(action, resource, **context), expected)

        check(True, "s3:ListBucket", bucket, s3_prefix=f"{prefix}/log/")
        check(True, "s3:ListBucket", bucket)  # a GET of a missing key
        check(False, "s3:ListBucket", bucket, s3_prefix="elsewhere/")
        check(False, "s3:ListBucket", bucket, s3_prefix=f"{prefix}-2/")
        check(False, "s3:ListBucket", bucket, s3_prefix="")
        group = f"arn:aws:logs:{account}:log-group:{outputs['log_groups'][name]}"
        check(True, "logs:PutLogEvents", f"{group}:log-stream:one")
        check(False, "logs:PutLogEvents", f"arn:aws:logs:{account}:log-group:/aws/lambda/another:log-stream:one")
        check(False, "logs:DeleteLogGroup", f"{group}:*")
        for action in ("ReceiveMessage", "DeleteMessage", "ChangeMessageVisibility", "GetQueueAttributes"):
            check(name == "ingest-queue", f"sqs:{action}", f"arn:aws:sqs:{account}:{queue}")
            check(False, f"sqs:{action}", f"arn:aws:sqs:{account}:{dead}")
        check(False, "sqs:SendMessage", f"arn:aws:sqs:{account}:{queue}")
        check(name == "compact", "lambda:InvokeFunction", f"arn:aws:lambda:{account}:function:{function}")
        check(False, "lambda:InvokeFunction", f"arn:aws:lambda:{account}:function:another")
        # The secret's ARN is that of the platform that rendered the policy.
        secrets = [s["Resource"] for s in policy.statements if "secretsmanager:GetSecretValue" in s["Action"]]
        checks.equal(f"{name}: secrets that it may read", len(secrets), 1 if name in ("ingest-http", "query-http") else 0)
        wide = [s["Sid"] for s in policy.statements if "*" in s["Resource"] or any("*" in action for action in s["Action"])]
        checks.equal(f"{name}: statements for everything", wide, [])


def main(zips, outputs_file, directory):
    checks = Checks()
    with open(outputs_file) as file:
        outputs = {name: output["value"] for name, output in json.load(file).items()}
    policies = {name: outputs["policies"][name] for name in FUNCTIONS}
    statements = [s for s in json.loads(policies["compact"])["Statement"] if s["Sid"] in TASK_STATEMENTS]
    checks.equal("statements of a task's role", [s["Sid"] for s in statements], list(TASK_STATEMENTS))
    until_it_answers()
    anybody = Keys("test", "test")
    for bucket in (outputs["bucket"], OTHER_BUCKET):
        anybody.client("s3").create_bucket(Bucket=bucket)
    task = json.dumps({"Version": "2012-10-17", "Statement": statements})
    keys, admin = roles({**policies, TASK: task})
    with checks.part("functions work with their roles' keys"):
        functions_work(checks, zips, directory, outputs, keys)
    with checks.part("a server works with its role's keys"):
        tasks_work(checks, directory, outputs, keys)
    with checks.part("objects are guarded"):
        objects_are_guarded(checks, outputs, keys, admin)
    with checks.part("queues, secrets, logs and functions are guarded"):
        the_rest_is_guarded(checks, outputs, {name: Policy(text) for name, text in policies.items()})
    checks.tell(f"{checks.passed} checks passed, {len(checks.failed)} failed")
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
