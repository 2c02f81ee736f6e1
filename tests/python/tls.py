"""Connects by ADBC over TLS: URL, CA file, files of a client certificate and its key."""

import sys

import adbc_driver_flightsql.dbapi as flight_sql
from adbc_driver_flightsql import DatabaseOptions


def read(path):
    with open(path) as file:
        return file.read()


url, authority, *identity = sys.argv[1:]
options = {DatabaseOptions.TLS_ROOT_CERTS.value: read(authority)}
if identity:
    options[DatabaseOptions.MTLS_CERT_CHAIN.value] = read(identity[0])
    options[DatabaseOptions.MTLS_PRIVATE_KEY.value] = read(identity[1])
with flight_sql.connect(url, db_kwargs=options, autocommit=True) as connection, connection.cursor() as cursor:
    cursor.execute("select count(*) from d.m")
    print(cursor.fetchall())
