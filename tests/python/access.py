"""Runs queries by ADBC with credentials: URL, then user and password, or a token; prints rows or the error."""

import sys

import adbc_driver_flightsql.dbapi as flight_sql
from adbc_driver_flightsql import DatabaseOptions

url, *who = sys.argv[1:]
if len(who) == 2:
    options = {"username": who[0], "password": who[1]}
else:
    options = {DatabaseOptions.AUTHORIZATION_HEADER.value: f"Bearer {who[0]}"}
try:
    with flight_sql.connect(url, db_kwargs=options, autocommit=True) as connection, connection.cursor() as cursor:
        for statement in ["select count(*) from d.m", "insert into d.m1 using d.m tags ('x') values (1700000000009, 9)"]:
            try:
                cursor.execute(statement)
                print(cursor.fetchall())
            except Exception as error:
                print(type(error).__name__, error)
except Exception as error:
    print(type(error).__name__, error)
