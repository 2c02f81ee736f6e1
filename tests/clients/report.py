"""The page with the results of the clients. It has nothing that differs between runs: no dates, times or ports."""

import json
import os
import re
import xml.etree.ElementTree

HERE = os.path.dirname(os.path.abspath(__file__))
SERVERS = ["open", "auth", "tls"]
STATES = ["passed", "failed", "known"]
PROOF_CHARACTERS = 160

HEAD = """\
# Clients, as tested

<!-- Written by tests/clients/run --report; tests/run checks that a run gives the same. -->

Unmodified clients against real servers: one that asks nobody who they are (`open`), one that asks (`auth`), one that asks and speaks TLS
(`tls`). How each connects, with samples: [clients/](clients/README.md). `tests/clients/run BINARY CACHE --report docs/clients.md`, after
`tests/clients/install CACHE`, writes this page.
"""
KNOWN = """\
These steps fail whatever the server does: in the same way at a server of somebody else, arrow-go's Flight SQL example over SQLite
([reference.go](../tests/clients/go/reference.go)), which each run proves. A step that passes again, or that only one of the two servers
shows, counts as failed until it is no longer listed here.
"""


def of(line):
    return "passed" if line["ok"] else "known" if line.get("known") else "failed"


def clients():
    """Each client's name, its version as pinned by the installation files, and the location of its steps."""

    def text(*path):
        with open(os.path.join(HERE, *path)) as file:
            return file.read()

    def python(package):
        return re.search(rf"^{package}==(\S+)", text("python", "requirements.txt"), re.M | re.I)[1]

    def go(module):
        return re.search(rf"^\t{module} v(\S+)$", text("go", "go.mod"), re.M)[1]

    maven = "{http://maven.apache.org/POM/4.0.0}"
    jdbc = xml.etree.ElementTree.fromstring(text("jdbc", "pom.xml")).find(f".//{maven}dependency/{maven}version").text
    node = json.loads(text("node", "package.json"))["dependencies"]
    arrow = go("github.com/apache/arrow-go/v18")
    flight = re.search(r'^name = "arrow-flight"\nversion = "(.+)"$', text("..", "..", "Cargo.lock"), re.M)[1]
    adbc, pandas, polars = python("adbc-driver-flightsql"), python("pandas"), python("polars")
    return {
        "jdbc": (f"flight-sql-jdbc-driver {jdbc}", "jdbc/src/main/java/clients"),
        "adbc": (f"adbc-driver-flightsql {adbc}, pandas {pandas}, polars {polars}", "python/adbc_steps"),
        "flightsql-dbapi": (f"flightsql-dbapi {python('flightsql-dbapi')}, SQLAlchemy {python('SQLAlchemy')}", "python/dbapi.py"),
        "go-database-sql": (f"arrow-go {arrow}, driver of database/sql", "go/database_sql.go"),
        "go-flightsql": (f"arrow-go {arrow}, flightsql.Client", "go/flight_sql.go"),
        "influxdb3-python": (f"influxdb3-python {python('influxdb3-python')}", "python/influx3.py"),
        "influxdb3-js": (f"@influxdata/influxdb3-client {node['@influxdata/influxdb3-client']}", "node/influx3.js"),
        "flight_sql_client": (f"arrow-flight {flight} (Rust)", "python/flight_sql_client.py"),
        "odbc-calls": (f"the calls of the Flight SQL ODBC driver, by pyarrow {python('pyarrow')}", "python/odbc.py"),
    }


def table(head, rows, numbers=0):
    """A Markdown table whose last columns are numbers."""
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * (len(head) - numbers) + "---:|" * numbers
    for row in rows:
        yield "| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in row) + " |"


def proof(note):
    """The client's message, without source positions and addresses."""
    said = re.split(r" at line \d+: | at clients\.|; because of ", note)[0]
    said = re.sub(r"127\.0\.0\.1:\d+", "HOST:PORT", said)
    return said if len(said) <= PROOF_CHARACTERS else said[:PROOF_CHARACTERS].rsplit(" ", 1)[0] + " …"


def count(lines, state):
    return sum(of(line) == state for line in lines)


def steps(lines, names, known):
    for name in names:
        version, place = known[name]
        for server in SERVERS:
            chosen = [line for line in lines if line["client"] == name and line["mode"] == server]
            yield [f"[{name}](../tests/clients/{place})", version, server, *(count(chosen, state) for state in STATES)]
    yield ["all", "", "", *(count(lines, state) for state in STATES)]


def subjects(lines, names):
    """The subject of a step: the beginning of its name."""
    for name in names:
        ours = [line for line in lines if line["client"] == name]
        for subject in sorted({line["step"].split(":")[0] for line in ours}):
            cells = []
            for server in SERVERS:
                chosen = [line for line in ours if line["step"].split(":")[0] == subject and line["mode"] == server]
                cells.append(f"{count(chosen, 'passed')} of {len(chosen)}" if chosen else "")
            yield [name, subject, *cells]


def faults(lines, names, state):
    chosen = {}
    for line in lines:
        if of(line) == state:
            chosen.setdefault((names.index(line["client"]), line["step"]), []).append(line)
    for (place, step), same in sorted(chosen.items()):
        servers = ", ".join(server for server in SERVERS if any(line["mode"] == server for line in same))
        row = [names[place], step, servers]
        if state == "known":
            why, _, said = same[0]["note"].partition(" (")
            row += [why, f"`{proof(said.removesuffix(')'))}`", f"`{proof(same[0]['there'])}`"]
        yield row


def page(lines):
    known = clients()
    known |= {line["client"]: ("", "") for line in lines if line["client"] not in known}
    names = list(known)
    out = [HEAD, "## Steps", "", *table(["client", "version", "server", *STATES], steps(lines, names, known), 3)]
    out += ["", "## Steps by subject", "", "Passed of all, on each server.", ""]
    out += table(["client", "subject", *SERVERS], subjects(lines, names), 3)
    out += ["", "## Known faults of clients", "", KNOWN]
    out += table(["client", "step", "servers", "why", "what the client says here", "what it says at the other server"], faults(lines, names, "known"))
    failed = list(faults(lines, names, "failed"))
    if failed:
        out += ["", "## Failed", "", *table(["client", "step", "servers"], failed)]
    return "\n".join(out) + "\n"
