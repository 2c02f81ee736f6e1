"""Read access to the root gives no right on a server; a root directory is readable by the server's own user alone."""

import base64
import contextlib
import hashlib
import hmac
import json
import os
import re
import stat
import subprocess
import time

import pyarrow

from .attacks import Holes, attack
from .node import ADMIN, expect

# The first bytes of a zstd frame.
ZSTD = b"\x28\xb5\x2f\xfd"
# Marks the generation of a user among the texts: part of what a session's signature covers.
GENERATION = "generation "
YEARS_MS = 31 * 365 * 86_400_000


def texts(node):
    """All JSON strings in all versions of the chain, decompressed."""
    found = set()
    for place, _, names in os.walk(os.path.join(node.root, "meta")):
        for name in names:
            with open(os.path.join(place, name), "rb") as file:
                data = file.read()
            for at in (match.start() for match in re.finditer(re.escape(ZSTD), data)):
                found |= strings(unpacked(data[at:]))
    return found


def frame(data):
    """The bytes of the zstd frame at the start of these bytes (RFC 8878): its header, blocks and checksum."""
    flags = data[4]
    single, size = flags >> 5 & 1, flags >> 6
    at = 5 + (not single) + (0, 1, 2, 4)[flags & 3] + ((single, 2, 4, 8)[size])
    while True:
        header = int.from_bytes(data[at : at + 3], "little")
        # A block of type 1 is one byte that is repeated.
        at += 3 + (1 if header >> 1 & 3 == 1 else header >> 3)
        if header & 1 or at >= len(data):
            return data[: at + 4 * (flags >> 2 & 1)]


def unpacked(data):
    """The content of the zstd frame at the start of these bytes; nothing where there is none."""
    with contextlib.suppress(pyarrow.ArrowException, OSError, IndexError):
        return pyarrow.CompressedInputStream(pyarrow.BufferReader(frame(data)), "zstd").read()
    return b""


def strings(data):
    """The strings of a JSON document, member names included, and the generations of users."""
    try:
        value, _ = json.JSONDecoder().raw_decode(data.decode(errors="replace"))
    except ValueError:
        return set()
    found, left = set(), [value]
    while left:
        match left.pop():
            case str(text):
                found.add(text)
            case list(items):
                left += items
            case dict(pairs):
                left += [*pairs, *pairs.values()]
                found |= {f"{GENERATION}{value}" for name, value in pairs.items() if name == "generation"}
    return found


def encoded(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def forged(key, user, generation, until_ms):
    """A session token that is signed with this key."""
    told = f"{encoded(user.encode())}.{generation}.{until_ms}"
    return f"tls_{told}." + encoded(hmac.new(key.encode(), told.encode(), hashlib.sha256).digest())


@attack("on", "proxy")
def what_lies_in_the_root_lets_nobody_in(field):
    node, holes = field.node, Holes()
    reply = node.ask("GET", f"/rest/login/{ADMIN}/{node.admin[1].replace(' ', '%20')}")
    session = reply.json()["desc"]
    expect(node.ask("GET", "/api/v1/log", who=session).status == 200, "control: the token of a session lets its user in")
    program = node.do("create token program")[0][0]
    expect(node.ask("GET", "/api/v1/log", who=program).status == 200, "control: the token of a program lets its user in")
    found = texts(node)
    expect(ADMIN in found, f"control: the users are not found in the root, only {sorted(found)[:20]}")
    told = {text for text in found if 8 <= len(text) <= 512 and text.isascii() and text.isprintable()}
    keys = [text for text in told if re.fullmatch(r"[A-Za-z0-9_=+/-]{22,90}", text)]
    until = int(time.time() * 1000)
    generations = {0, 1, *(int(text[len(GENERATION) :]) for text in found if text.startswith(GENERATION))}
    for key in keys:
        for generation in generations:
            for lasts in (3_600_000, YEARS_MS):
                token = forged(key, ADMIN, generation, until + lasts)
                reply = node.ask("GET", "/api/v1/log", who=token)
                holes.check(
                    reply.status == 401, f"a session of {ADMIN} forged with what lies in the root, good for {lasts // 3_600_000} h: {reply}"
                )
    for text in told:
        for token in (text, f"tls_{text}", f"tl_{text}", f"tl_{text}_{text}"):
            reply = node.ask("GET", "/api/v1/log", who=token)
            holes.check(reply.status == 401, f"the text {token} of the root as a token: {reply}")
    expect(session not in found and program not in found, "the root has a token in clear")
    return f"{holes.end()}, {len(keys)} texts may have been keys"


@attack("on", "off")
def nobody_else_reads_a_root_that_is_a_directory(field):
    holes = Holes()
    for umask in (0o022, 0o000):
        with field.server("--fold-interval", "1s", umask=umask, template=None) as node:
            for number in range(3):
                expect(node.write("kept", f"t{number}", node.admin).status == 204, "control: a write")
            node.ask("POST", "/api/v1/compact?until=full", who=node.admin, seconds=60)
            expect(node.write("kept", who=node.admin).status == 204, "control: a write after the fold")
            count = look(node.root, holes, f"umask {umask:03o}")
            expect(count > 5, f"control: only {count} files and directories are there")
    # A root that another command creates.
    made = os.path.join(field.directory, f"{field.name('made')}.root")
    command = [field.binary, "access", "--store", made, f"create user {ADMIN} password 'a long one' admin"]
    subprocess.run(command, capture_output=True, timeout=60, check=True, umask=0)
    look(made, holes, "access")
    return holes.end()


def look(root, holes, what):
    count = 0
    for place, directories, names in [(os.path.dirname(root), [os.path.basename(root)], []), *os.walk(root)]:
        for name in [*directories, *names]:
            path = os.path.join(place, name)
            try:
                mode = os.lstat(path).st_mode
            except FileNotFoundError:
                # A fold deletes its staged files.
                continue
            count += 1
            holes.check(not stat.S_IMODE(mode) & 0o077, f"{what}: {os.path.relpath(path, root)} is {stat.S_IMODE(mode):04o}")
    return count
