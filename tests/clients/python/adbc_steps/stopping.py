"""Cancelled queries."""

import threading
import time

from adbc_driver_flightsql import StatementOptions

from adbc_steps.common import ask, connect
from steps import equal, refused

ENDLESS = "select a.value, b.value from generate_series(1, 1000000) a cross join generate_series(1, 1000000) b"
SILENT = "select count(*) from generate_series(1, 3000000) a cross join generate_series(1, 3000000) b where (a.value * b.value) % 7 = 3"


def running(part, expected):
    found = None
    with connect() as other:
        for _ in range(100):
            found = ask(other, f"select count(*) from system.queries where sql like '%{part}%' and sql not like '%system.queries%'")[0][0]
            if found == expected:
                break
            time.sleep(0.1)
    equal(found, expected, "queries that run")


def run(steps):
    step = steps.step

    @step("stop: cancel from another thread, before the first row")
    def _():
        with connect() as connection, connection.cursor() as cursor:
            ended = []

            def run():
                try:
                    cursor.execute(SILENT)
                    cursor.fetchall()
                    ended.append(None)
                except Exception as error:
                    ended.append(error)

            thread = threading.Thread(target=run)
            thread.start()
            running("% 7 = 3", 1)
            cursor.adbc_cancel()
            thread.join(20)
            equal(len(ended) == 1 and ended[0] is not None, True, "the query ends with an error")
            running("% 7 = 3", 0)

    @step("stop: a result that is closed in the middle")
    def _():
        with connect() as connection:
            with connection.cursor() as cursor:
                cursor.execute(ENDLESS)
                equal(len(cursor.fetchmany(1000)), 1000)
                running("1000000) b", 1)
            running("1000000) b", 0)
            equal(ask(connection, "select 1"), [(1,)])

    @step("stop: a deadline of the client")
    def _():
        with connect() as connection, connection.cursor() as cursor:
            cursor.adbc_statement.set_options(**{StatementOptions.TIMEOUT_FETCH.value: 1.0, StatementOptions.TIMEOUT_QUERY.value: 1.0})
            begun = time.monotonic()
            refused("", lambda: (cursor.execute(SILENT), cursor.fetchall()))
            equal(time.monotonic() - begun < 20, True, "within the deadline")
            running("% 7 = 3", 0)
