"""Short statements that would exhaust processor or memory; every user may send them."""

import contextlib
import threading
import time

from robust.server import until

from .attacks import Holes, attack
from .node import Pulse, expect

LIMIT, TIMEOUT = 256, 2
OPTIONS = ["--query-memory", f"{LIMIT}MiB", "--query-timeout", f"{TIMEOUT}s", "--ingest-buffer", "64MiB", "--tail-cache", "64MiB", "--page-cache", "32MiB"]
# MiB above the limit: a quarter of it, and the allocator's caches per thread.
SLACK = LIMIT // 4 + 64
# Seconds until /health answers and until a statement ends, on two busy processors.
HEALTH, END = 2.0, 3 * TIMEOUT + 4

FREEZING = [
    "select levenshtein(repeat('a',80000),repeat('b',80000))",
    "select count(*) from information_schema.tables where levenshtein(repeat('a',80000),repeat('b',80000)) > 1",
    "select regexp_count(repeat('a',30000), '(a*)*b')",
    "select regexp_like(repeat('a',200000), '(.*a){20}b')",
    "select array_length(array_distinct(array_sort(range(0,8000000))))",
    "select array_intersect(range(0,4000000),range(0,4000000,2))[1]",
    "select factorial(20) from generate_series(1,10) where levenshtein(repeat('x',60000), repeat('y',60000)) = 0",
    "select length(sha512(repeat(repeat('a',1000),60000)))",
    "select sum(length(md5(repeat('a',60000000)))) from generate_series(1,100)",
    "select uuid() from generate_series(1,1000000000) order by 1 limit 1",
]


@attack("on", alone=True)
def constants_are_not_computed_on_the_threads_that_answer(field):
    """Three of each at once: /health is answered meanwhile, and each ends by the query timeout."""
    holes = Holes()
    with field.server(*OPTIONS) as node:
        expect(node.do("select levenshtein('kitten', 'sitting')") == [[3]], "control: levenshtein")
        for statement in FREEZING:
            ask(node, [statement] * 3, holes)
            if holes.found:
                # The started statements may run for minutes.
                break
    return holes.end()


def ask(node, statements, holes):
    told, threads = [], []

    def one(statement):
        began = time.monotonic()
        try:
            reply = node.run(statement, node.nobody, seconds=30)
            told.append((statement, time.monotonic() - began, reply.status, str(reply)))
        except OSError as error:
            told.append((statement, time.monotonic() - began, 0, f"no answer: {error or type(error).__name__}"))

    with Pulse(node) as pulse:
        threads = [threading.Thread(target=one, args=(statement,), daemon=True) for statement in statements]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(40)
    holes.check(not pulse.fault and pulse.worst <= HEALTH, f"/health within {pulse.worst:.1f} s beside {statements[0]}: {pulse.fault}")
    for statement, took, status, text in told:
        holes.check(status in (200, 400, 413, 422, 503), f"{statement}: {text}")
        holes.check(took <= END, f"{statement} took {took:.1f} s, where a query may take {TIMEOUT} s: {text}")


GROWING = [
    "select length(regexp_replace(repeat('a',30000),'',repeat('b',30000),'g'))",
    "select length(array_to_string(range(0,20000),repeat('x',60000)))",
    f"select length(concat_ws(',',{','.join(['repeat(chr(97),60000000)'] * 30)}))",
    f"select length(array_to_string(make_array({','.join(['repeat(chr(97),60000000)'] * 30)}),''))",
    f"select length({'||'.join(['repeat(chr(97),60000000)'] * 30)})",
    f"select length(concat({','.join(['repeat(chr(97),60000000)'] * 30)}))",
    "select length(replace(repeat('a',60000),'a',repeat('b',60000)))",
    "select length(translate(repeat('a',60000000),'a','é'))",
    "select length(overlay(repeat('a',60000000) placing repeat('b',60000000) from 1))",
    "select length(encode(cast(repeat('a',60000000) as bytea),'hex'))",
    "select length(upper(concat(repeat('ŉ',30000000),repeat('ŉ',30000000))))",
    "select length(reverse(concat(repeat('a',60000000),repeat('b',60000000))))",
    "select array_length(array_concat(range(0,8000000),range(0,8000000),range(0,8000000),range(0,8000000)))",
    "select array_length(string_to_array(repeat('a,',30000000),','))",
    "select array_length(regexp_match(repeat('a',60000000),'(a*)'))",
    "select sum(length(lpad('x',g,'y'))) from (select value % 2 * 60000000 as g from generate_series(1,200))",
    "select count(*) from (select repeat('x',60000) as t from generate_series(1,100000) order by t)",
    "select sum(length(repeat(t,1000))) from (select cast(value as varchar) || repeat('z',1000) as t from generate_series(1,100000))",
    "select length(string_agg(repeat('x',60000),',')) from generate_series(1,100000)",
    "select array_length(array_agg(repeat('x',60000))) from generate_series(1,100000)",
    "select array_length(flatten(make_array(range(0,8000000),range(0,8000000),range(0,8000000))))",
    "select length(to_char(timestamp '2020-01-01', repeat('%Y',5000000)))",
]


@attack("off", alone=True)
def texts_and_lists_stay_within_the_memory_of_queries(field):
    """The results of all functions count against the limit."""
    holes, most = Holes(), 0
    with contextlib.ExitStack() as stack:
        node = None
        for statement in GROWING:
            if node is None or node.overgrown or node.process.poll() is not None:
                node = stack.enter_context(field.server(*OPTIONS))
                expect(node.do("select length(repeat('a',60000) || concat_ws(',','b','c'))") == [[60_003]], "control: a text")
                until(lambda: node.queries() == 0, 10, "a query stays")
            base = node.resident()[0]
            node.forget_peak()
            try:
                reply = node.run(statement, node.nobody, seconds=40)
                holes.check(reply.status in (200, 400, 413, 422, 503), f"{statement[:120]}: {reply}")
            except OSError as error:
                holes.check(False, f"{statement[:120]}: no answer: {error or type(error).__name__}")
            if node.overgrown or node.process.poll() is not None:
                holes.check(False, f"{statement[:120]}: the server took more than the machine may give, and was ended")
                continue
            grown = node.resident()[1] - base
            most = max(most, grown)
            holes.check(grown <= LIMIT + SLACK, f"{statement[:120]}: {grown} MiB more were resident, the limit is {LIMIT}")
    return f"{holes.end()}, at most {most} MiB"


@attack("off")
def a_large_constant_in_an_aggregate_panics_nothing(field):
    holes = Holes()
    with field.server(*OPTIONS) as node:
        for statement in [
            "select length(string_agg(repeat('x',1000000),'')) from generate_series(1,3000)",
            "select max(length(repeat('x',1000000))) from generate_series(1,3000)",
            "select array_length(array_agg(repeat('x',1000000))) from generate_series(1,3000)",
            "select min(repeat('x',1000000)), max(repeat('y',1000000)) from generate_series(1,30000)",
            "select count(distinct repeat('x',1000000)) from generate_series(1,30000)",
            "select length(repeat('x',1000000)) from generate_series(1,3000) group by repeat('x',1000000)",
            "select length(t) from (select repeat('x',1000000) as t from generate_series(1,3000)) order by t limit 1",
            "select count(*) from (select repeat('x',1000000) as t from generate_series(1,3000)) a join (select 1) b on length(t) > 1",
        ]:
            try:
                reply = node.run(statement, node.nobody, seconds=40)
                holes.check(reply.status in (200, 400, 422, 503), f"{statement}: {reply}")
            except OSError as error:
                holes.check(False, f"{statement}: no answer: {error or type(error).__name__}")
        panics = node.log().count("panicked")
        holes.check(panics == 0, f"the server panicked {panics} times")
        expect(
            node.do("select length(string_agg(repeat('x',1000),'')) from generate_series(1,300)") == [[300_000]], "control: an aggregate"
        )
        # Already reported above.
        node.overgrown = bool(panics)
    return holes.end()


@attack("on", alone=True)
def a_limit_of_a_user_holds_for_the_planning_too(field):
    holes = Holes()
    with field.server("--query-memory", f"{LIMIT}MiB", "--query-timeout", "60s") as node:
        node.do("alter user nobody limit time 2s, memory '64MiB', queries 2")
        ask(node, FREEZING[:1] * 2, holes)
        expect(node.do("select 1", node.nobody) == [[1]] or holes.found, "control: a statement within the limits")
    return holes.end()
