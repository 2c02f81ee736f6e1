"""Information leaks: secrets in output, the existence of databases, unexpected settings, escape sequences for terminals."""

import json
import os
import pty
import re
import select
import subprocess
import time

from .attacks import Holes, attack
from .flights import question
from .node import NOBODY, OWN, Node, expect

SECRET = "5ecretOfTheStore"
COMMANDS = ["serve", "demo", "sql", "import", "export", "compact", "backup", "restore", "access", "health", "inspect", "check"]


def told(field, *arguments, environment=None, directory=None, seconds=30, input=None):
    """The output and the exit status of a command."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("TIDELAKE_")} | (environment or {})
    done = subprocess.run(
        [field.binary, *arguments],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=seconds,
        env=clean,
        cwd=directory or field.directory,
        input=input or "",
    )
    return done.stdout + done.stderr, done.returncode


@attack("off")
def help_prints_no_secret(field):
    holes = Holes()
    environment = {
        "TIDELAKE_STORE_OPTIONS": f"access_key_id=key,secret_access_key={SECRET}",
        "TIDELAKE_ADMIN_PASSWORD": SECRET,
        "TIDELAKE_PASSWORD": SECRET,
        "TIDELAKE_TOKEN": f"tl_1_{SECRET}",
        "TIDELAKE_TRACE_ENDPOINT": f"http://user:{SECRET}@127.0.0.1:4317",
        "TIDELAKE_URL": f"http://user:{SECRET}@127.0.0.1:1",
        "TIDELAKE_STORE": f"s3://{SECRET}@bucket/root",
    }
    for command in COMMANDS:
        for flag in ("--help", "-h"):
            text, _ = told(field, command, flag, environment=environment)
            expect("Usage" in text, f"control: {command} {flag}: {text[:200]}")
            at = text.find(SECRET)
            holes.check(at < 0, f"{command} {flag}: {text[max(0, at - 80) : at + 20]}")
    # A secret in a malformed setting.
    for option in (f"secret_access_key:{SECRET}", SECRET, f"secret_access_key ={SECRET}", f"={SECRET}"):
        text, code = told(field, "serve", "--store", "s3://bucket/root", "--listen", "wrong", "--store-option", option)
        expect(code != 0, "control: a wrong address is refused")
        holes.check(SECRET not in text, f"--store-option {option}: {text}")
        text, _ = told(field, "serve", "--store", "s3://bucket/root", "--listen", "wrong", environment={"TIDELAKE_STORE_OPTIONS": option})
        holes.check(SECRET not in text, f"TIDELAKE_STORE_OPTIONS={option}: {text}")
    return holes.end()


@attack("on", "off")
def show_variables_and_the_log_show_no_secret(field):
    holes = Holes()
    options = ["--trace-endpoint", f"http://user:{SECRET}@127.0.0.1:9", "--trace-ratio", "1"]
    with field.server(*options, "--log", "trace", environment={"TIDELAKE_ADMIN_PASSWORD": "a long one of the administrator"}) as node:
        for statement in ("show variables", "select * from information_schema.df_settings", "select * from system.variables"):
            reply = node.run(statement, node.admin)
            holes.check(SECRET not in reply.text, f"{statement}: {reply.text[max(0, reply.text.find(SECRET) - 200) :][:300]}")
        rows = node.do("show variables")
        expect(any("trace_endpoint" in str(row) for row in rows), f"control: the setting is not shown: {rows[:3]}")
        if node.asks:
            rows = node.run("show variables", node.nobody)
            holes.check(SECRET not in rows.text, "SHOW VARIABLES of a user without rights")
        holes.check(SECRET not in node.ask("GET", "/metrics", who=node.admin).text, "/metrics")
        time.sleep(0.5)
        log = node.log()
        at = log.find(SECRET)
        holes.check(at < 0, f"the log: {log[max(0, at - 200) : at + 20]}")
    return holes.end()


@attack("on", "proxy")
def a_token_does_not_change_the_password_of_its_user(field):
    """A stolen token must not outlive its revocation by a new password."""
    node, holes = field.node, Holes()
    old, new = "a long one of bob", "another one of bob"
    node.do(f"create user bob password '{old}'")
    token = node.do("create token full for bob")[0][0]
    session = node.ask("GET", f"/rest/login/bob/{old.replace(' ', '%20')}").json()["desc"]
    for what, who in (("a token", token), ("a session", session), ("a token as a password", ("bob", token))):
        for statement in (f"alter user bob password '{new}'", f"alter user bob pass '{new}'"):
            if what == "a session" and node.run("select 1", session).status != 200:
                session = node.ask("GET", f"/rest/login/bob/{old.replace(' ', '%20')}").json()["desc"]
                who = session
            reply = node.run(statement, who)
            changed = node.run("select 1", ("bob", new)).status == 200
            # A session was opened with the password, so a server may accept it here.
            holes.check((reply.status != 200 and not changed) or what == "a session", f"{what}: {statement}: {reply}")
            if changed:
                node.do(f"alter user bob password '{old}'")
    reply = node.run(f"alter user bob password '{new}'", ("bob", old))
    expect(reply.status == 200, f"control: by the password itself: {reply}")
    expect(node.run("select 1", ("bob", new)).status == 200, "control: the new password")
    expect(node.run("select 1", ("bob", old)).status == 401, "control: the old password")
    reply = node.run("select 1", session)
    holes.check(reply.status == 401, f"a session goes on after its user's password has changed: {reply}")
    node.do("drop user bob")
    return holes.end()


@attack("on", "proxy")
def tokens_do_not_outlive_a_password_unsaid(field):
    """A password change ends the user's tokens or lists those that stay valid."""
    node, holes = field.node, Holes()
    for what, who in (("the user", "carol"), ("the administrator", "dave")):
        old, new = f"a long one of {who}", f"another one of {who}"
        node.do(f"create user {who} password '{old}'")
        token = node.run(f"create token leaked_{who}", (who, old)).json()["data"][0][0]
        expect(node.run("select 1", token).status == 200, "control: a token")
        by = (who, old) if what == "the user" else node.admin
        reply = node.run(f"alter user {who} password '{new}'", by)
        expect(reply.status == 200, f"control: a change by {what}: {reply}")
        lives = node.run("select 1", token).status == 200
        holes.check(
            not lives or f"leaked_{who}" in reply.text, f"after a change by {what} the token lives, and the answer does not say so: {reply}"
        )
        node.do(f"drop user {who}")
    return holes.end()


@attack("on", "proxy")
def who_may_not_know_a_database_is_not_told_that_it_is(field):
    node, holes = field.node, Holes()
    node.write(OWN, who=node.admin)
    there, absent = OWN, "nope"
    client, options = node.flight(node.nobody)

    def by_flight(name):
        try:
            client.get_flight_info(question(f"select * from {name}.m"), options)
        except Exception as error:
            return 0, str(error)
        return 1, "answered"

    def by_http(method, path, body=""):
        def ask(name):
            reply = node.ask(method, path.format(name), body.format(name), node.nobody)
            return reply.status, reply.text

        return ask

    ways = {"GetFlightInfo": by_flight}
    for statement in (
        "select * from {}.m",
        "insert into {}.m (tbname, ts, v) values ('a', 1, 1)",
        "create stable {}.x (ts timestamp, v double) tags (g int)",
        "drop stable {}.m",
        "alter stable {}.m add column x int",
        "delete from {}.m where ts < 0",
        "describe {}.m",
        "show tables from {}",
        "show create database {}",
        "show create table {}.m",
        "use {}",
        "drop database {}",
        "alter database {} keep 10",
        "create database {}",
        "create database if not exists {}",
        "drop database if exists {}",
        "create token x with read on {}.*",
        "explain select * from {}.m",
    ):
        ways[f"/api/v1/sql: {statement}"] = by_http("POST", "/api/v1/sql", statement)
        ways[f"/rest/sql: {statement}"] = by_http("POST", "/rest/sql", statement)
    ways |= {
        "/api/v1/sql?database=": by_http("POST", "/api/v1/sql?database={}", "select * from m"),
        "/api/v1/sql?database=, without a table": by_http("POST", "/api/v1/sql?database={}", "select 1"),
        "/rest/sql/": by_http("POST", "/rest/sql/{}", "select * from m"),
        "/write": by_http("POST", "/write?db={}", "m v=1"),
        "/api/v2/write": by_http("POST", "/api/v2/write?bucket={}", "m v=1"),
        "/api/put": by_http("POST", "/api/put?db={}", '{{"metric":"m","timestamp":1700000000,"value":1,"tags":{{"h":"a"}}}}'),
        "/opentsdb": by_http("POST", "/opentsdb/v1/put/json/{}", '{{"metric":"m","timestamp":1700000000,"value":1,"tags":{{"h":"a"}}}}'),
        "/query CREATE": by_http("POST", "/query?q=CREATE+DATABASE+{}"),
        "/query DROP": by_http("POST", "/query?q=DROP+DATABASE+{}"),
        "files": by_http("GET", "/api/v1/files?table={}.m"),
    }
    for what, ask in ways.items():
        found, missing = ask(there), ask(absent)
        # The answers may differ in the name of the database alone.
        same = found[0] == missing[0] and plain(found[1], there) == plain(missing[1], absent)
        holes.check(same, f"{what}: {found[0]} {found[1][:120]} for one that is, {missing[0]} {missing[1][:120]} for one that is not")
    client.close()
    expect(node.run(f"select count(*) from {there}.m", node.writer).status == 200, "control: who may read it")
    reply = node.run(f"select count(*) from {absent}.m", node.admin)
    expect(reply.status == 404, f"control: the administrator learns what is not there: {reply}")
    return holes.end()


def plain(text, name):
    """An answer without the database name and without numbers."""
    return re.sub(r"\d+", "N", text.replace(name, "NAME"))


@attack("on", "off")
def settings_of_the_working_directory_are_announced(field):
    """A tidelake.toml in the working directory must not change the server silently."""
    holes = Holes()
    directory = os.path.join(field.directory, field.name("working"))
    os.makedirs(directory)
    with open(os.path.join(directory, "tidelake.toml"), "w") as file:
        file.write('slow_query = "11s"\n')
    for options, expected in (([], "11s"), (["--config", "none"], "10s")):
        node = Node(field.binary, directory, field.mode, field.name("config"), *options)
        with node:
            shown = {row[0]: row for row in node.do("show variables")}
            holes.check(expected in str(shown.get("slow_query")), f"with {options} slow_query is {shown.get('slow_query')}, not {expected}")
            said = "tidelake.toml" in node.log()
            if options:
                holes.check(not said, f"with {options} the log names the file: {node.log()[:300]}")
            else:
                holes.check(said, f"the log does not name the file that was read: {node.log()[:300]}")
    return holes.end()


@attack("on", "off")
def the_shell_passes_no_escapes_on_to_the_terminal(field):
    """Other users control the content of cells, column names and error messages."""
    node, holes = field.node, Holes()
    database = field.name("escapes")
    node.do(f"create database {database}")
    evil = {
        "title": "\x1b]0;owned\x07",
        "clear": "\x1b[2J\x1b[H",
        "clipboard": "\x1b]52;c;b3duZWQ=\x07",
        "c1": "\x9b31m",
        "return": "good\rbad",
        "backspace": "good\b\b\b\bbad",
        "newline": "good\nbad",
        "null": "a\x00b",
        "delete": "a\x7fb",
    }
    body = json.dumps(
        [
            {"metric": "m", "timestamp": 1_700_000_000 + at, "value": at, "tags": {"t": text}}
            for at, text in enumerate(evil.values())
            if "\n" not in text and "\0" not in text
        ]
    )
    node.ask("POST", f"/api/put?db={database}", body, node.admin)
    quoted = ", ".join("'" + text.replace("\0", "") + f"' as c{at}" for at, text in enumerate(evil.values()))
    statements = {
        "a cell": f"select {quoted}",
        "a column": 'select 1 as "\x1b[31mred"',
        "an error": 'select * from "\x1b[31mnosuch"',
        "a tag": f"select t from {database}.m",
        "a list": "select make_array('\x1b[31m', 'b')",
    }
    url = f"http://127.0.0.1:{node.port}"
    for what, statement in statements.items():
        text = shell(node, url, statement)
        expect(text.strip(), f"control: {what} prints nothing")
        found = re.findall("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]", text)
        # A terminal turns each newline into carriage return and newline.
        found += re.findall("\r(?!\n)", text)
        holes.check(not found, f"{what}: {sorted(set(found))!r} in {text[:200]!r}")
    text = shell(node, url, "select 'ünï ✓' as name")
    expect("ünï ✓" in text, f"control: a text without escapes: {text!r}")
    return holes.end()


def shell(node, url, statement):
    """The output of `tidelake sql` for a statement on a terminal."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TIDELAKE_")} | {"TERM": "xterm-256color", "COLUMNS": "200"}
    command = [node.binary, "sql", "--url", url, "-c", statement]
    if node.asks:
        command[2:2] = ["--user", node.admin[0]]
        environment["TIDELAKE_PASSWORD"] = node.admin[1]
    ours, theirs = pty.openpty()
    try:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=environment, close_fds=True)
        os.close(theirs)
        text, deadline = b"", time.monotonic() + 30
        while time.monotonic() < deadline:
            if not select.select([ours], [], [], 0.5)[0]:
                if process.poll() is not None:
                    break
                continue
            try:
                more = os.read(ours, 1 << 14)
            except OSError:
                break
            if not more:
                break
            text += more
        process.wait(10)
        return text.decode(errors="replace")
    finally:
        os.close(ours)


@attack("on", "proxy")
def errors_to_strangers_tell_nothing_of_the_server(field):
    """A refused client learns neither users nor databases nor internals."""
    node, holes = field.node, Holes()
    texts = []
    for user in (NOBODY[0], "admin", "writer", "nosuchuser"):
        reply = node.run("select 1", (user, "wrong"), source="127.0.0.5")
        holes.check(reply.status == 401, f"{user}: {reply}")
        texts.append(reply.text)
    holes.check(len(set(texts)) == 1, f"users that exist and that do not are distinguishable: {texts}")
    for path in ("/api/v1/sql", "/rest/sql", "/nosuch", "/write?db=own", "/metrics"):
        reply = node.ask("POST", path, "select 1")
        shown = f"{dict(reply.headers)} {reply.text}"
        holes.check(not re.search(r"own\b|nobody|writer|datafusion|/root|\.rs\b", shown), f"{path}: {shown[:200]}")
    expect(node.ask("GET", "/health").status == 200, "control: health")
    return holes.end()
