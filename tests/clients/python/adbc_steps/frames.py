"""pandas and polars."""

import datetime

import pandas
import polars

from adbc_steps.common import HEADER, START, START_MS, ask, at, connect
from steps import equal, refused


def run(steps):
    step = steps.step

    @step("pandas: a query becomes a frame")
    def _():
        with connect() as connection:
            frame = pandas.read_sql("select ts, i, x, s, b from many order by ts", connection)
            equal((len(frame), int(frame["i"].sum()), float(frame["x"].sum())), (200, 19_900, 9_950.0))
            equal(frame["ts"].iloc[0], pandas.Timestamp(START))
            with connection.cursor() as cursor:
                cursor.execute("select i from many where i < 3 order by i")
                equal(cursor.fetch_df()["i"].tolist(), [0, 1, 2])

    @step("pandas: tags as dictionaries become categories")
    def _():
        with connect() as connection:
            ask(connection, "create stable presses (ts timestamp, v double) tags (hall varchar(8), n int)")
            for name, hall in (("p1", "'A'"), ("p2", "'B'"), ("p3", "null"), ("p4", "'A'")):
                ask(connection, f"insert into {name} using presses tags ({hall}, 1) values ({START_MS}, 1.5) ({START_MS + 1000}, 2.5)")
        with connect(**{HEADER + "tag-encoding": "dictionary"}) as connection, connection.cursor() as cursor:
            for order in ("tbname, ts", "ts, tbname"):
                cursor.execute(f"select tbname, hall, n from presses order by {order}")
                frame = cursor.fetch_df()
                equal((str(frame["tbname"].dtype), str(frame["hall"].dtype), str(frame["n"].dtype)), ("category", "category", "int32"))
                halls = dict(zip(frame["tbname"], frame["hall"].astype(object).where(frame["hall"].notna(), None)))
                equal((len(frame), halls), (8, {"p1": "A", "p2": "B", "p3": None, "p4": "A"}))

    @step("pandas: a frame becomes a table, fail, append and replace")
    def _():
        frame = pandas.DataFrame({"ts": pandas.date_range(START, periods=50, freq="s"), "i": range(50), "s": [f"s{i}" for i in range(50)]})
        with connect() as connection:
            equal(frame.to_sql("frame", connection, index=False), 50)
            refused("", lambda: frame.to_sql("frame", connection, index=False))
            later = frame.assign(ts=frame["ts"] + pandas.Timedelta("1h"))
            equal(later.to_sql("frame", connection, index=False, if_exists="append"), 50)
            equal(ask(connection, "select count(*), sum(i) from frame"), [(100, 2450)])
            equal(frame.head(5).to_sql("frame", connection, index=False, if_exists="replace"), 5)
            equal(ask(connection, "select count(*), sum(i), max(s) from frame"), [(5, 10, "s4")])

    @step("polars: a query becomes a frame")
    def _():
        with connect() as connection:
            frame = polars.read_database("select ts, i, x, s, b from many order by ts", connection)
            equal((frame.height, frame["i"].sum(), frame["x"].sum(), frame["b"].sum()), (200, 19_900, 9_950.0, 100))
            equal(frame["ts"][0], START)
            frame = polars.read_database("select i from many where i = ?", connection, execute_options={"parameters": (5,)})
            equal(frame["i"].to_list(), [5])

    @step("polars: a frame becomes a table, fail, append and replace")
    def _():
        frame = polars.DataFrame({"ts": [at(i * 1000) for i in range(50)], "i": list(range(50)), "s": [f"s{i}" for i in range(50)]})
        with connect() as connection:
            equal(frame.write_database("polar", connection, engine="adbc"), 50)
            refused("", lambda: frame.write_database("polar", connection, engine="adbc"))
            later = frame.with_columns(polars.col("ts") + datetime.timedelta(hours=1))
            equal(later.write_database("polar", connection, engine="adbc", if_table_exists="append"), 50)
            equal(ask(connection, "select count(*), sum(i) from polar"), [(100, 2450)])
            equal(frame.head(5).write_database("polar", connection, engine="adbc", if_table_exists="replace"), 5)
            equal(ask(connection, "select count(*), sum(i), max(s) from polar"), [(5, 10, "s4")])
