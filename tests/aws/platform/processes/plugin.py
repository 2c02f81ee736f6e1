"""LocalStack plugins of this package: function executor and gateway server."""

import os
import tempfile

from localstack.runtime.server.core import RuntimeServerPlugin
from localstack.services.lambda_.invocation.plugins import RuntimeExecutorPlugin


class ProcessExecutorPlugin(RuntimeExecutorPlugin):
    """LAMBDA_RUNTIME_EXECUTOR=process: a function is a process, not a container."""

    name = "process"

    def load(self, *_args, **_kwargs):
        from processes.executor import ProcessExecutor

        hand_on_packed_bodies()
        return ProcessExecutor


def hand_on_packed_bodies():
    """A function URL passes bodies unchanged; LocalStack would decompress gzip."""
    from localstack.aws.handlers.codec import ContentDecoder

    unpack = ContentDecoder.__call__

    def unless_for_a_function(self, chain, context, response):
        if ".lambda-url." not in context.request.host:
            unpack(self, chain, context, response)

    ContentDecoder.__call__ = unless_for_a_function


class LoopbackServerPlugin(RuntimeServerPlugin):
    """GATEWAY_SERVER=twisted-loopback: LocalStack's own server binds every address, whatever GATEWAY_LISTEN says."""

    name = "twisted-loopback"

    def load(self, *_args, **_kwargs):
        import localstack.runtime.server.twisted as server
        from twisted.internet import endpoints

        class Loopback:
            TCP6ServerEndpoint = endpoints.TCP6ServerEndpoint

            @staticmethod
            def TCP4ServerEndpoint(reactor, port):
                return endpoints.TCP4ServerEndpoint(reactor, port, interface="127.0.0.1")

        server.endpoints = Loopback
        keep_objects_apart()
        hold_lines_against_patterns()
        return server.TwistedRuntimeServer()


def hold_lines_against_patterns():
    """A pattern on a JSON field matches only such lines; LocalStack's own matcher matches every line."""
    import json
    import re

    import localstack.services.logs.provider as logs

    def matcher(pattern):
        shape = re.fullmatch(r'\{ \$\.(\w+) = "([^"]*)" \}', pattern)
        if shape is None:
            raise NotImplementedError(f"a pattern of another shape than {{ $.field = \"text\" }}: {pattern}")
        name, expected = shape.groups()

        def matches(_pattern, event):
            try:
                line = json.loads(event["message"])
            except ValueError:
                return False
            return isinstance(line, dict) and line.get(name) == expected

        return matches

    logs.get_pattern_matcher = matcher


def keep_objects_apart():
    """Stores S3 objects with this process's other files; LocalStack would use one place for all processes."""
    import localstack.services.s3.provider as s3

    s3.DEFAULT_S3_TMP_DIR = os.path.join(tempfile.gettempdir(), "localstack-s3-storage")
