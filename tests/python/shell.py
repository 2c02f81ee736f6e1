"""The interactive shell on a terminal: shell.py BINARY URL ROOT, with the root that the server at URL serves. Uses the standard
library alone."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import sys
import tempfile
import termios
import time
import urllib.request

BINARY, URL, ROOT = sys.argv[1:]
LIMIT = 60
HOME = tempfile.mkdtemp()
ENDLESS = "select count(*) from generate_series(1, 1000000000000) where value % 7 = 3"


class Shell:
    def __init__(self, *arguments, server=("--url", URL), **environment):
        self.seen = ""
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.environ.update({"TERM": "xterm", "HOME": HOME, "PAGER": "cat"}, **environment)
            os.execv(BINARY, [BINARY, "sql", *server, *arguments])
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 120, 0, 0))

    def ready(self):
        """Waits for the next prompt; the shell may discard what is typed before."""
        return self.expect(r"\x1b\[\?2004h")

    def run(self, text, *patterns):
        """Types a line, waits for the patterns and the next prompt, and returns the output."""
        self.type(text + "\r")
        return "".join([self.expect(pattern) for pattern in patterns]) + self.ready()

    def interrupt(self, *patterns):
        """Types Ctrl-C, and waits as `run`."""
        self.type("\x03")
        return "".join([self.expect(pattern) for pattern in patterns]) + self.ready()

    def expect(self, pattern):
        """Reads until the pattern occurs after the previously expected text."""
        end = time.monotonic() + LIMIT
        while True:
            found = re.search(pattern, self.seen)
            if found:
                text, self.seen = self.seen[: found.end()], self.seen[found.end() :]
                return text
            left = end - time.monotonic()
            assert left > 0, f"no {pattern!r} in {LIMIT} s, but {self.seen!r}"
            if select.select([self.terminal], [], [], left)[0]:
                try:
                    data = os.read(self.terminal, 65536)
                except OSError:
                    data = b""
                assert data, f"the shell ended without {pattern!r}: {self.seen!r}"
                self.seen += data.decode(errors="replace")

    def type(self, text):
        os.write(self.terminal, text.encode())

    def end(self):
        """Waits for the shell's end; returns the exit code."""
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            if select.select([self.terminal], [], [], 0.05)[0]:
                try:
                    os.read(self.terminal, 65536)
                except OSError:
                    pass
        raise AssertionError("the shell does not end")


def rows(statement):
    body = json.dumps({"sql": statement}).encode()
    request = urllib.request.Request(f"{URL}/api/v1/sql", body, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=LIMIT) as reply:
        return reply.read().decode()


def until(holds, what):
    end = time.monotonic() + LIMIT
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def runs():
    """Whether the server executes the query: a query that is only planned cannot be cancelled by ID."""
    return any(row[1] == "running" and "generate_series" in row[-1] for row in json.loads(rows("show queries"))["data"])


def path(name, text=None):
    """A file in the home directory, with this text if one is given."""
    file = os.path.join(HOME, name)
    if text is not None:
        with open(file, "w", encoding="utf-8") as out:
            out.write(text)
    return file


def content(name):
    with open(os.path.join(HOME, name), encoding="utf-8") as file:
        return file.read()


def ctrl_c_cancels_the_query_on_the_server_and_the_shell_goes_on(shell):
    shell.type(ENDLESS + ";\r")
    until(runs, "the query does not run")
    shell.expect(r"0:00:0[1-9]|[1-9]s")  # the progress
    shell.interrupt("error: query cancelled")
    until(lambda: not runs(), "the query still runs")
    shell.run("select 6 * 7 as n;", r"\| 42 ")


def ctrl_c_at_the_prompt_clears_the_input_also_of_several_lines(shell):
    shell.type("select nonsense\rfrom nowhere")
    shell.expect("nowhere")
    shell.interrupt()
    shell.run("select 6 * 8 as n;", r"\| 48 ")


def a_statement_of_several_lines_is_edited_as_one(shell):
    shell.run("select\r  6 *\r  9 as n;", r"\| 54 ")
    # The previous input comes back whole.
    shell.type("\x1b[A")
    shell.run("", r"\| 54 ")


def names_are_listed(shell):
    shell.run("\\l", r"\| home ")
    shell.run("\\dt", r"\| climate ")
    shell.run(".tables", r"\| climate ")
    shell.run("\\d climate", r"\| room +\| NCHAR +\| [0-9]+ +\| TAG")
    shell.run("\\df date_tr", r"\| date_trunc +\| scalar ")


def databases_are_chosen_and_unknown_ones_refused(shell):
    for statement in ["use nosuch;", "\\u nosuch", "\\c nosuch"]:
        shell.run(statement, 'error: (\\S+ DATABASE: )?database not found: "nosuch"')
    shell.run("use plant;", "using plant")
    shell.expect("plant> ")
    shell.run(".use home")
    shell.expect("home> ")


def times_are_printed_where_wanted(shell):
    shell.run("select 1;", r"1 row, [0-9]+\.[0-9]{3} s")
    shell.run("\\timing off", "timing: off")
    seen = shell.run("select 1;", r"1 row[^\n]*")
    assert "row," not in seen, seen
    shell.run("\\timing", "timing: on")


def every_format_is_printed(shell):
    query = "select room, temperature from climate where room = 'cellar' order by ts limit 1;"
    for mode, pattern in [
        ("csv", r"\ncellar,12\.5\r"),
        ("json", r'\[{"room":"cellar","temperature":12\.5}\]'),
        ("ndjson", r'\n{"room":"cellar","temperature":12\.5}\r'),
        ("markdown", r"\| cellar \| 12\.5 +\|"),
        ("vertical", r"room +│ cellar\r\ntemperature │ 12\.5"),
        ("table", r"\| cellar \| 12\.5 +\|"),
    ]:
        shell.run(f".mode {mode}")
        shell.run(query, pattern)
    shell.run("\\x on", "one line a value: on")
    shell.run(query, r"temperature │ 12\.5")
    shell.run("\\x", "one line a value: off")


def a_chart_is_drawn_with_a_line_for_each_room(shell):
    shell.run("\\f chart")
    query = "select ts, room, temperature from climate order by ts;"
    shell.run(query, r"21\.5│", r"12\.5│", "temperature cellar", "temperature kitchen")
    shell.run("\\f table")


def results_go_to_a_file(shell):
    shell.run(f"\\o {path('out.txt')}")
    shell.run("select 4321 as n;", "1 row")
    shell.run("\\o")
    shell.run("select 4322 as n;", r"\| 4322 ")
    assert "| 4321 |" in content("out.txt") and "4322" not in content("out.txt")


def files_are_run(shell):
    file = path("two.sql", "-- two statements\nselect 51 as n;\n\\f csv\nselect\n  52 as n; \\f table\n")
    shell.run(f"\\i {file}", r"\| 51 ", r"\n52\r")
    file = path("wrong.sql", "select 1;\n\nselect\n  nosuch from climate;\nselect 77;")
    seen = shell.run(f".read {file}", "line 3: no such column", r"2 │   nosuch from climate\r\n +│   \^")
    assert "| 77" not in seen, seen
    shell.run(f"\\i {path('none.sql')}", "cannot read .*none.sql")
    file = path("itself.sql", "")
    path("itself.sql", f"\\i {file}\n")
    shell.run(f"\\i {file}", "run each other 16 levels deep")


def the_last_statement_is_repeated_until_ctrl_c(shell):
    shell.run("select 61 as n;", "1 row")
    shell.type("\\watch 0.1\r")
    for _ in range(3):
        shell.expect(r"every 0\.1 s\)")
        shell.expect(r"\| 61 ")
    shell.interrupt("cancelled")
    shell.type("select 62 as n \\watch 0.1\r")
    for _ in range(3):
        shell.expect(r"\| 62 ")
    shell.interrupt("cancelled")


def rows_are_copied_to_and_from_files(shell):
    out = path("cellar.csv")
    shell.run(f"\\copy (select ts, room, temperature from climate where room = 'cellar') to {out}", "2 rows exported")
    assert content("cellar.csv").splitlines()[0] == "ts,room,temperature", content("cellar.csv")
    shell.type(f"\\copy copied from {out}\r")
    shell.expect(r"roles\? \[y/N")
    shell.run("room", "2 written")
    shell.run("select count(*) as n, max(temperature) as t from copied where room = 'cellar';", r"\| 2 +\| 13\.5 ")
    shell.run(f"\\copy copied to {out}", "cannot create .*cellar.csv")
    shell.run(f"\\copy climate to {path('climate.lp')}", "4 rows exported")
    lines = content("climate.lp").splitlines()
    assert lines[0].startswith("climate,") and "room=" in lines[0] and len(lines) == 4, lines


def long_tables_are_shown_in_the_pager(shell):
    shell.run("\\rows 70")
    # The pager of this shell marks what it shows.
    seen = shell.run("select value from range(0, 100);", r"end of pager")
    assert "… 30 more rows" in seen, seen
    shell.run("\\pager off", "pager: off")
    assert "end of pager" not in shell.run("select value from range(0, 100);", r"100 rows")
    shell.run("\\pager", "pager: on")
    shell.run(".maxrows 1000")


def the_last_statement_is_edited(shell):
    shell.run("select 71 as n;", r"\| 71 ")
    shell.run("\\e", r"\| 72 ")


def errors_show_the_place_and_the_nearest_name(shell):
    place = r"1 │ select temprature from climate\r\n +│ {8}\^"
    shell.run("select temprature from climate;", "did you mean: temperature", place)
    shell.run("\\tming", r"unknown command \\tming; did you mean \\timing\?")
    shell.run("\\f xml", "expected a format: table, csv")


def tab_completes_keywords_names_and_values_of_tags(shell):
    for typed, rest, pattern in [
        ("SELEC\t", " 81 as n;", r"\| 81 "),
        ("select max(temper\t", ") from climate;", r"\| 21\.5 "),
        ("select count(*) as n from clim\t", ";", r"\| 4 "),
        ("select count(*) as n from plant.pu\t", ";", r"\| 1 "),
        ("select date_trun\t", "'hour', timestamp '2026-01-01T08:30:00');", r"2026-01-01T08:00:00"),
        ("select max(temperature) as t from climate where room = 'cel\t", ";", r"\| 13\.5 "),
        ("select max(temperature) as t from climate where room in ('kitchen', 'cel\t", ");", r"\| 21\.5 "),
        ("\\timin\t", " off", "timing: off"),
        ("\\timing o\tn\t", "", "timing: on"),
    ]:
        shell.type(typed)
        shell.run(rest, pattern)
    # New tables are completed as well.
    shell.run("create table attic (ts timestamp, v double);", "1 row")
    shell.type("select count(*) as n from att\t")
    shell.run(";", r"\| 0 ")


def statements_are_coloured_unless_the_user_forbids_it(shell):
    shell.run("select 'text' as n;", "1 row")
    shell.type("select 'te")
    shell.expect("\x1b\\[1;34mselect\x1b\\[0m \x1b\\[32m'te")
    shell.interrupt()


def help_lists_the_commands(shell):
    for text in ["help", "\\?", ".help", "HELP;"]:
        seen = shell.run(text, "Tab completes names")
        assert "\\watch [SECONDS]" in seen and "(.tables)" in seen, seen


for statement in [
    "create database home",
    "create stable home.climate (ts timestamp, temperature double) tags (room nchar(20))",
    "insert into home.climate (tbname, ts, temperature, room) values ('k', 1767250000000, 21.5, 'kitchen') "
    "('k', 1767250060000, 20.5, 'kitchen') ('c', 1767250000000, 12.5, 'cellar') ('c', 1767250060000, 13.5, 'cellar')",
    "create database plant",
    "create stable plant.pumps (ts timestamp, speed double) tags (hall nchar(20))",
    "insert into plant.pumps (tbname, ts, speed, hall) values ('p', 1767250000000, 7.5, 'north')",
]:
    rows(statement)

history = path("history")
path(".tidelakerc", "-- my settings\n\\u home\nselect 4711 as started;\n\\nosuch\n")
pager, editor = path("pager", "#!/bin/sh\ncat\necho end of pager\n"), path("editor", "#!/bin/sh\nsed -i s/71/72/ \"$1\"\n")
os.chmod(pager, 0o700)
os.chmod(editor, 0o700)
shell = Shell("--history", history, TIDELAKE_PAGER=pager, EDITOR=editor)
# The startup file has run, and its error has not kept the shell from starting.
shell.expect("4711")
shell.expect(r"\.tidelakerc: .*unknown command \\nosuch")
shell.ready()
for test in [
    ctrl_c_cancels_the_query_on_the_server_and_the_shell_goes_on,
    ctrl_c_at_the_prompt_clears_the_input_also_of_several_lines,
    a_statement_of_several_lines_is_edited_as_one,
    names_are_listed,
    databases_are_chosen_and_unknown_ones_refused,
    times_are_printed_where_wanted,
    every_format_is_printed,
    a_chart_is_drawn_with_a_line_for_each_room,
    results_go_to_a_file,
    files_are_run,
    the_last_statement_is_repeated_until_ctrl_c,
    rows_are_copied_to_and_from_files,
    long_tables_are_shown_in_the_pager,
    the_last_statement_is_edited,
    errors_show_the_place_and_the_nearest_name,
    tab_completes_keywords_names_and_values_of_tags,
    statements_are_coloured_unless_the_user_forbids_it,
    help_lists_the_commands,
]:
    print(test.__name__, file=sys.stderr)
    test(shell)

# The history is saved although the shell is killed.
os.kill(shell.pid, signal.SIGKILL)
os.waitpid(shell.pid, 0)
kept = content("history")
assert "generate_series" in kept and "6 * 8" in kept, kept

for farewell in ["exit\r", "quit;\r", "\\q\r", ".quit\r", "\x04"]:
    shell = Shell("--history", history, "--no-rc", NO_COLOR="1")
    shell.ready()
    shell.type("select 'te")
    assert "\x1b[1;34m" not in shell.expect("select 'te")
    shell.interrupt()
    shell.type(farewell)
    assert shell.end() == 0, farewell

shell = Shell("--history", history, "-d", "nosuch")
shell.expect('database not found: "nosuch"')
assert shell.end() == 1

# Without a server: the root is read, and nothing is written to it.
shell = Shell("--history", history, "--no-rc", "-d", "home", server=("--store", ROOT))
shell.expect("Reading ")
shell.ready()
shell.run("select count(*) as n, max(temperature) as t from climate;", r"\| 4 +\| 21\.5 ")
shell.run("insert into climate (tbname, ts, temperature, room) values ('k', 1, 1, 'x');", "error: ")
shell.run(f"\\copy climate from {path('cellar.csv')}", "error: .*cannot be written to")
shell.type("\\q\r")
assert shell.end() == 0
assert '"data":[[4]]' in rows("select count(*) from home.climate")
shell = Shell("--no-rc", server=("--store", path("nowhere")))
shell.expect("holds no root")
assert shell.end() == 1 and not os.path.exists(path("nowhere"))

# Parquet files without a server, and beside a root.
with_rows = Shell("--history", history, "--no-rc", "-d", "home")
with_rows.ready()
for room in ["kitchen", "cellar"]:
    query = f"select ts, room, temperature from climate where room = '{room}'"
    with_rows.run(f"\\copy ({query}) to {path(room + '.parquet')}", "2 rows exported")
with_rows.type("\\q\r")
assert with_rows.end() == 0
kitchen, both = path("kitchen.parquet"), os.path.join(HOME, "*.parquet")
shell = Shell("--history", history, "--no-rc", kitchen, path("cellar.parquet"), server=("--files",))
shell.expect("Reading files")
shell.ready()
shell.run("\\dt", r"\| cellar ", r"\| kitchen ")
shell.run("\\d kitchen", r"\| ts +\| TIMESTAMP ", r"\| room +\| VARCHAR ", r"\| temperature +\| DOUBLE ")
shell.run(f"\\d '{both}'", r"\| temperature +\| DOUBLE ")
shell.run("select count(*) as n, max(temperature) as t from kitchen;", r"\| 2 +\| 21\.5 ")
shell.run(f"select room, count(*) as n from '{both}' group by room order by room;", r"cellar +\| 2 ", r"kitchen +\| 2 ")
shell.run(f"select k.temperature - c.temperature as d from kitchen k join '{path('cellar.parquet')}' c on k.ts = c.ts;", r"\| 9\.0 ")
shell.run(f"select _wstart, avg(temperature) as t from '{both}' interval(1h);", r"\| 17\.0 ")
shell.run("select * from 'none.parquet';", "no such file: none.parquet")
os.mkdir(path("mixed"))
for name, sql in [("a", "select 1 as v"), ("b", "select 'x' as v")]:
    shell.run(f"\\copy ({sql}) to {path('mixed/' + name + '.parquet')}", "1 row exported")
seen = shell.run(f"select * from '{path('mixed')}/*.parquet';", "different types", "column: v")
assert "b.parquet" in seen and "a.parquet" in seen, seen
shell.run("select * from 'no*.parquet';", "no file matches")
shell.run(f"select * from '{history}.parquet';", "no such file")
shell.run("select * from nosuch;", "no such table")
# A file that changes is read anew.
os.replace(path("cellar.parquet"), kitchen)
shell.run("select count(*) as n, max(temperature) as t from kitchen;", r"\| 2 +\| 13\.5 ")
shell.type("\\q\r")
assert shell.end() == 0
shell = Shell("--no-rc", "-d", "home", server=("--store", ROOT))
shell.ready()
shell.run(f"select count(*) as n from climate, '{kitchen}' k where climate.ts = k.ts;", r"\| 4 ")
shell.type("\\q\r")
assert shell.end() == 0

# A server reads no files for its clients.
shell = Shell("--no-rc", "-d", "home")
shell.ready()
for query in [f"select * from '{kitchen}';", f"select * from files.'{kitchen}';", f"describe '{kitchen}';", "select * from '/etc/*';"]:
    seen = shell.run(query, "error: ")
    assert "no such table" in seen or "no such database" in seen or "database not found" in seen, seen
shell.type("\\q\r")
assert shell.end() == 0
