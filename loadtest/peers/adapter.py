"""Code shared by the adapters: the papers' queries, their timing, the output protocol, and server processes.

An adapter prints one JSON object per line. `event` is its kind:

    ready    a server of `peer` and `version` accepts line protocol at `url`/write?db=db&precision=ms, or OpenTSDB's JSON at
             `url`/api/put?db=db; the load test writes "loaded" to standard input once all rows are written
    settled  all rows are stored and compacted: `rows`, `seconds` of settling, `bytes` on disk as du counts; engines that get
             the rows from standard input, as an Arrow stream, add `load`: `peer`, `version`, `seconds`, the number of
             `clients` of the adapter and `rows_per_request`, 0 for an engine in the adapter's process
    answer   one query: `name` ("q2 avg 10 %"), `sql`, `millis` of each run, `rows` of the answer
    table    one statement of `converse`: `millis` of each run and the `file` with the answer as an Arrow stream, or `error`
    mixed    all statements of several clients of `converse` are answered: `seconds`

`rows` of q1 is one row: the number of rows, and the sums of ts, temperature, humidity and devid. Rows of q3 omit the key but
are ordered by it; q4 is ordered by the minute.
"""

import collections
import ctypes
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.parse

# Minimum total time and maximum number of a query's runs: the load test's SAMPLE_TIME and SAMPLE_RUNS.
SAMPLE_SECONDS, SAMPLE_RUNS = 0.3, 100
# Maximum waits: for a server to start and to exit, for an answer, for a store to settle.
START_SECONDS, STOP_SECONDS, REPLY_SECONDS, SETTLE_SECONDS = 60, 30, 600, 1800

FUNCTIONS = {
    "count": "count(*)",
    "avg": "avg(temperature)",
    "sum": "sum(temperature)",
    "max": "max(temperature)",
    "min": "min(temperature)",
    "spread": "cast(max(temperature) - min(temperature) as double)",
}
THREE = "count(temperature), sum(temperature), avg(temperature)"

Question = collections.namedtuple("Question", "name family function group percent")


def questions(groups, percents):
    """q1 of the groups, then q2 to q4 at each percentage, with the load test's names."""
    for group in groups:
        yield Question(f"q1 group {group}", "q1", None, group, None)
    for percent in percents:
        for function in FUNCTIONS:
            yield Question(f"q2 {function} {percent} %", "q2", function, None, percent)
        yield Question(f"q3 {percent} %", "q3", None, None, percent)
        yield Question(f"q4 {percent} %", "q4", None, None, percent)


def sql(question, minute, table="devices"):
    """The query in plain SQL; `minute` is the engine's expression for the minute of `ts`."""
    if question.family == "q1":
        return f"select * from {table} where devgroup = {question.group}"
    where = "" if question.percent >= 100 else f" where devgroup < {question.percent}"
    if question.family == "q2":
        return f"select {FUNCTIONS[question.function]} from {table}{where}"
    key = "devgroup" if question.family == "q3" else minute
    return f"select {THREE} from {table}{where} group by {key} order by {key}"


def say(event, **fields):
    """Prints one line for the load test."""
    print(json.dumps({"event": event, **fields}), flush=True)


def tell(text):
    """Prints one line for the user."""
    print(text, file=sys.stderr, flush=True)


def measure(peer, version, question, statement, run, rows, repeat, in_process):
    """Runs a query once to warm up and then `repeat` times, or longer as the load test does, and prints the times.

    Only `run` is timed; `rows` converts the result of the last run to the answer's rows.
    """
    run()
    millis, found = sampled(run, repeat)
    answer = {"peer": peer, "version": version, "name": question.name, "sql": statement, "millis": millis}
    say("answer", **answer, rows=rows(found), in_process=in_process)


def numbers(text):
    """Parses integers separated by commas."""
    return [int(word) for word in text.split(",") if word]


def bytes_of(*directories):
    """Returns the disk usage of all files below some directories."""
    total = 0
    for directory in directories:
        for where, _, names in os.walk(directory):
            for name in names:
                try:
                    total += os.lstat(os.path.join(where, name)).st_blocks * 512
                except FileNotFoundError:
                    pass  # Compaction has removed the file.
    return total


def rest(state, quiet=10.0):
    """Waits until `state()` has not changed for `quiet` seconds; returns the seconds until the last change."""
    begun = changed = time.monotonic()
    last = state()
    while time.monotonic() - changed < quiet:
        if time.monotonic() - begun > SETTLE_SECONDS:
            sys.exit(f"the store has not come to rest within {SETTLE_SECONDS} s")
        time.sleep(0.25)
        now = state()
        if now != last:
            last, changed = now, time.monotonic()
    return changed - begun


def free_port():
    """Returns a free port of the loopback address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


class Server:
    """An engine's server process on 127.0.0.1; it is killed when this process exits for any reason."""

    def __init__(self, command, port, log):
        self.port, self.log, self.connection = port, log, None
        with open(log, "wb") as output:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                preexec_fn=die_with_parent,
            )

    def wait_until(self, target):
        """Waits until a GET succeeds."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                return self.request("GET", target)
            except (OSError, http.client.HTTPException, RuntimeError) as error:
                if self.process.poll() is not None:
                    self.fail(f"the server ended with {self.process.returncode}")
                if time.monotonic() > deadline:
                    self.fail(f"the server does not answer GET {target} within {START_SECONDS} s: {error}")
                time.sleep(0.1)

    def request(self, method, target, body=None, headers=None):
        """Returns the complete body of a reply; retries if a reused connection turns out to be closed."""
        used = self.connection is not None
        try:
            return self.exchange(method, target, body, headers or {})
        except ConnectionError:
            if not used:
                raise
            return self.exchange(method, target, body, headers or {})

    def exchange(self, method, target, body, headers):
        """Sends one request and reads its reply; closes the connection on failure."""
        if self.connection is None:
            self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=REPLY_SECONDS)
        try:
            self.connection.request(method, target, body, headers)
            reply = self.connection.getresponse()
            found = reply.read()
        except (OSError, http.client.HTTPException):
            self.connection.close()
            self.connection = None
            raise
        if not 200 <= reply.status < 300:
            raise RuntimeError(f"{method} {target}: HTTP status {reply.status}: {found[:600].decode(errors='replace')}")
        return found

    def get(self, path, **parameters):
        """Returns the body of the reply to a GET with parameters."""
        return self.request("GET", f"{path}?{urllib.parse.urlencode(parameters)}")

    def post(self, path, **parameters):
        """Returns the body of the reply to a POST of a form."""
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        return self.request("POST", path, urllib.parse.urlencode(parameters), kind)

    def stop(self):
        """Stops the process: SIGTERM, then SIGKILL."""
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def fail(self, text):
        """Exits with the last lines of the server's log as the message."""
        with open(self.log, "rb") as log:
            end = log.read()[-2000:].decode(errors="replace")
        sys.exit(f"{text}; the end of its log:\n{end}")


def die_with_parent():
    """Runs in the new process: has it killed when its parent exits (Linux's PR_SET_PDEATHSIG)."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def arguments(parser):
    """Parses the arguments of adapters of engines with their own store."""
    parser.add_argument("--engines-dir", help="where loadtest/peers/install put the engines")
    parser.add_argument("--work", required=True, help="directory of the engine's data, which is emptied")
    parser.add_argument("--group", type=numbers, default=[0], help="groups of q1")
    parser.add_argument("--percent", type=numbers, default=[10, 50, 100], help="percentages of q2-q4")
    parser.add_argument("--repeat", type=int, default=5, help="runs of each question, at least")
    parser.add_argument("--load-only", action="store_true", help="serve others' questions until standard input ends")
    return parser


def empty(directory):
    """Creates an empty directory."""
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)
    return os.path.abspath(directory)


def serve(engine, args):
    """Starts a server, lets the load test write, and runs the queries.

    `engine` has peer, version, start(args, work), url, settle() -> rows, stored() -> directories, statement(question),
    run(statement), rows(question, what run gave), stop().
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))
    try:
        engine.start(args, empty(args.work))
        say("ready", peer=engine.peer, version=engine.version, url=engine.url)
        if sys.stdin.readline() != "loaded\n":
            sys.exit("standard input ended before the rows were loaded")
        begun = time.monotonic()
        settle_seconds, held = engine.settle()
        tell(f"{engine.peer} settled after {time.monotonic() - begun:.1f} s")
        say("settled", rows=held, seconds=settle_seconds, bytes=bytes_of(*engine.stored()))
        if args.load_only:
            sys.stdin.read()
            return
        for question in questions(args.group, args.percent):
            statement = engine.statement(question)
            run = lambda statement=statement: engine.run(statement)
            rows = lambda found, question=question: engine.rows(question, found)
            measure(engine.peer, engine.version, question, statement, run, rows, args.repeat, in_process=False)
    finally:
        engine.stop()


def sampled(run, repeat):
    """Runs a function at least `repeat` times, or longer as the load test does; returns the times and the last result."""
    millis, found = [], None
    begun = time.perf_counter()
    while len(millis) < repeat or (time.perf_counter() - begun < SAMPLE_SECONDS and len(millis) < SAMPLE_RUNS):
        started = time.perf_counter()
        found = run()
        millis.append(round((time.perf_counter() - started) * 1e3, 4))
    return millis, found


def q1_sums(rows):
    """Returns the summary of q1's answer; `rows` are (ts in milliseconds, temperature, humidity, devid)."""
    sums = [0, 0, 0, 0.0, 0]
    for ts, temperature, humidity, devid in rows:
        sums[0] += 1
        sums[1] += ts
        sums[2] += temperature
        sums[3] += humidity
        sums[4] += devid
    return [sums]


def embed(engine, args):
    """Loads an Arrow stream of the generator's rows from standard input into an engine, and runs the queries.

    `engine` has peer, version, open(args, work), load(reader), settle() -> rows, stored() -> directories,
    statement(question), run(statement), rows(question, what run gave), close(); and clients and rows_per_request when it is
    not in this process but a server that this adapter writes to.
    """
    import pyarrow

    engine.open(args, empty(args.work))
    try:
        reader = pyarrow.ipc.open_stream(sys.stdin.buffer)
        begun = time.perf_counter()
        # An engine may return a load time that it has measured itself.
        load_seconds = engine.load(reader) or time.perf_counter() - begun
        tell(f"{engine.peer} loaded in {load_seconds:.1f} s")
        begun = time.perf_counter()
        held = engine.settle()
        seconds = time.perf_counter() - begun
        clients, rows_per_request = getattr(engine, "clients", 0), getattr(engine, "rows_per_request", 0)
        load = {"peer": engine.peer, "version": engine.version, "seconds": load_seconds}
        load.update(clients=clients, rows_per_request=rows_per_request)
        say("settled", rows=held, seconds=seconds, bytes=bytes_of(*engine.stored()), load=load)
        for question in questions(args.group, args.percent):
            statement = engine.statement(question)
            run = lambda statement=statement: engine.run(statement)
            rows = lambda found, question=question: engine.rows(question, found)
            measure(engine.peer, engine.version, question, statement, run, rows, args.repeat, in_process=clients == 0)
    finally:
        engine.close()


def converse(engine, args):
    """Loads an Arrow stream from standard input into an engine, and answers the statements that follow, one JSON object per line.

    A line is {"sql", "repeat"}, or {"mixed": statements, "clients"}. `engine` has peer, version, open(args, work),
    load(reader), settle() -> rows, stored() -> directories, client() -> run(statement) -> Arrow table of one more connection,
    plain(table) -> table with comparable types, close().
    """
    import pyarrow

    work = empty(args.work)
    engine.open(args, work)
    try:
        begun = time.perf_counter()
        engine.load(pyarrow.ipc.open_stream(sys.stdin.buffer))
        load = {"peer": engine.peer, "version": engine.version, "seconds": time.perf_counter() - begun}
        begun = time.perf_counter()
        held = engine.settle()
        say("settled", rows=held, seconds=time.perf_counter() - begun, bytes=bytes_of(*engine.stored()), load=load)
        run = engine.client()
        for line in iter(sys.stdin.buffer.readline, b""):
            asked = json.loads(line)
            if "mixed" in asked:
                say("mixed", seconds=concurrently(engine, asked["mixed"], asked["clients"]))
                continue
            try:
                run(asked["sql"])
                millis, found = sampled(lambda asked=asked: run(asked["sql"]), asked["repeat"])
            except Exception as error:  # Each engine has its own errors.
                say("table", millis=[], error=str(error)[:600])
                continue
            found, path = engine.plain(found), f"{work}/answer.arrows"
            with pyarrow.ipc.new_stream(path, found.schema) as writer:
                writer.write_table(found)
            say("table", millis=millis, file=path)
    finally:
        engine.close()


def concurrently(engine, statements, clients):
    """Runs all statements by some threads, each of which takes the next one; returns the seconds."""
    import concurrent.futures

    waiting = iter(statements)
    runs = [engine.client() for _ in range(clients)]

    def work(run):
        # Taking the next element of a list's iterator is atomic.
        for statement in waiting:
            run(statement)

    begun = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        for done in [pool.submit(work, run) for run in runs]:
            done.result()
    return time.perf_counter() - begun


def rows_of_table(question, table):
    """Returns the rows of an Arrow table that answers a query."""
    import pyarrow
    import pyarrow.compute as compute

    if question.family != "q1":
        return [list(row) for row in zip(*(column.to_pylist() for column in table.columns))]
    millis = compute.cast(compute.cast(table["ts"], pyarrow.timestamp("ms")), pyarrow.int64())
    # Sum in 64 bits, whatever the column types are.
    wide = [millis, compute.cast(table["temperature"], pyarrow.int64()), compute.cast(table["humidity"], pyarrow.float64())]
    wide.append(compute.cast(table["devid"], pyarrow.int64()))
    return [[table.num_rows, *(compute.sum(column).as_py() for column in wide)]]
