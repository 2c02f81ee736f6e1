"""The registry of attacks and the servers that they run against."""

import contextlib
import itertools

from .node import Node, expect

ATTACKS = {}
ALL = ("off", "on", "proxy")


def attack(*modes, alone=False):
    """Registers an attack for servers of these modes. The function's name states the promise that it tries to break.

    With `alone` no other attack runs meanwhile: it needs processor and memory, or measures them."""

    def add(function):
        ATTACKS[function.__name__] = (function, modes or ALL, alone)
        return function

    return add


class Field:
    """The servers of one mode: one shared by all attacks that do not damage it, others on request."""

    def __init__(self, binary, directory, mode):
        self.binary, self.directory, self.mode = binary, directory, mode
        self.numbers, self.shared, self.made = itertools.count(), None, None

    @contextlib.contextmanager
    def server(self, *options, **more):
        """A new server with these options."""
        name = f"{self.mode}{next(self.numbers)}"
        with Node(self.binary, self.directory, self.mode, name, *options, **({"template": self.template()} | more)) as node:
            yield node

    def template(self):
        """A root with the users: a change of users or rights is answered after two seconds, so all servers copy the same root."""
        if self.mode == "off":
            return None
        if not self.made:
            node = Node(self.binary, self.directory, self.mode, f"{self.mode}-template")
            with node:
                node.stop()
            self.made = node.root
        return self.made

    @property
    def node(self):
        """The shared server; a new one when the last one no longer answers."""
        if self.shared and not alive(self.shared):
            self.close()
        if not self.shared:
            name = f"{self.mode}-shared{next(self.numbers)}"
            self.shared = Node(self.binary, self.directory, self.mode, name, template=self.template())
            self.shared.__enter__()
        return self.shared

    def close(self):
        if self.shared:
            shared, self.shared = self.shared, None
            shared.__exit__(None, None, None)

    def end(self):
        """Stops the shared server without further checks."""
        if self.shared:
            self.shared.overgrown = True
            self.close()

    def name(self, stem):
        """A unique database name."""
        return f"{stem}_{next(self.numbers)}"


def alive(node):
    try:
        return node.ask("GET", "/health", seconds=10).status == 200 and node.run("select 1", node.admin).status == 200
    except OSError:
        return False


class Holes:
    """Collects the holes that an attack found, so that one run reports all of them."""

    def __init__(self):
        self.found, self.tried = [], 0

    def check(self, holds, told):
        self.tried += 1
        if not holds:
            self.found.append(str(told))
        return holds

    def end(self):
        shown = "; ".join(self.found[:8]) + (" …" if len(self.found) > 8 else "")
        expect(not self.found, f"{len(self.found)} of {self.tried} got through: {shown}")
        return f"{self.tried} tried"
