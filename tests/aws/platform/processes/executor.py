"""Executor of LocalStack's Lambda: an environment whose function is a process."""

import contextlib
import json
import os
import stat
from pathlib import Path

from localstack.services.lambda_.invocation.lambda_models import InvocationResult
from localstack.services.lambda_.invocation.runtime_executor import LambdaRuntimeException, RuntimeExecutor

from processes.environment import Environment, Invocation, NotStarted


class ProcessExecutor(RuntimeExecutor):
    """One environment of a version of a function."""

    environment = None

    def start(self, env_vars):
        code = Path(self.function_version.config.code.get_unzipped_code_location())
        bootstrap = code / "bootstrap"
        if not bootstrap.exists():
            raise LambdaRuntimeException("the package holds no bootstrap")
        bootstrap.chmod(bootstrap.stat().st_mode | stat.S_IXUSR)
        variables = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LANG": "C.UTF-8"}
        variables |= {name: str(value) for name, value in env_vars.items()}
        variables["LAMBDA_TASK_ROOT"] = str(code)
        self.environment = Environment(bootstrap, variables, self.function_version.config.timeout)
        # A failed start is retried by the first event, which fails if the start fails again.
        with contextlib.suppress(NotStarted):
            self.environment.start()

    def stop(self):
        if self.environment:
            self.environment.stop()

    def invoke(self, payload):
        request_id, config = payload["invoke-id"], self.function_version.config
        outcome = self.environment.invoke(
            Invocation(request_id, payload["payload"].encode(), payload["invoked-function-arn"], payload["trace-id"])
        )
        body = outcome.body
        if outcome.error_type and not body:
            body = json.dumps({"errorType": outcome.error_type, "errorMessage": outcome.message}).encode()
        took = outcome.milliseconds
        logs = (
            f"START RequestId: {request_id} Version: {self.function_version.id.qualifier}\n{outcome.log}"
            f"{'' if outcome.log.endswith('\n') or not outcome.log else '\n'}{outcome.message and outcome.message + '\n'}"
            f"END RequestId: {request_id}\nREPORT RequestId: {request_id}\tDuration: {took:.2f} ms\t"
            f"Billed Duration: {int(took) + 1} ms\tMemory Size: {config.memory_size} MB\t"
            f"Max Memory Used: {outcome.peak_megabytes} MB\t"
        )
        return InvocationResult(request_id, body, is_error=outcome.error_type is not None, logs=logs)

    def get_address(self):
        return "127.0.0.1"

    def get_endpoint_from_executor(self):
        return "127.0.0.1"

    def get_runtime_endpoint(self):
        return ""

    def get_logs(self):
        return self.environment.last_log() if self.environment else ""

    @classmethod
    def prepare_version(cls, function_version):
        if function_version.config.code:
            function_version.config.code.prepare_for_execution()

    @classmethod
    def cleanup_version(cls, function_version):
        """Only files are left of a version."""

    @classmethod
    def validate_environment(cls):
        return True
