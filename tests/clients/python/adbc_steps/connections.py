"""Authentication and transports."""

import os

import adbc_driver_flightsql.dbapi as flight_sql
import pyarrow
from adbc_driver_flightsql import DatabaseOptions

from adbc_steps.common import START, START_MS, ask, connect, options, target
from steps import Target, equal, refused, text_of


def run(steps):
    step = steps.step

    if target.user:

        @step("connect: user and password")
        def _():
            with connect() as connection:
                equal(ask(connection, "select current_user()"), [(target.user,)])

        @step("connect: token")
        def _():
            bearer = {DatabaseOptions.AUTHORIZATION_HEADER.value: f"Bearer {target.token}"}
            with connect(credentials=False, **bearer) as connection:
                equal(ask(connection, "select current_user()"), [(target.user,)])

        @step("connect: wrong password is refused")
        def _():
            refused("password", lambda: ask(connect(username=target.user, password="wrong"), "select 1"))

        @step("connect: wrong token is refused")
        def _():
            bearer = {DatabaseOptions.AUTHORIZATION_HEADER.value: "Bearer wrong"}
            refused("", lambda: ask(connect(credentials=False, **bearer), "select 1"))

        @step("connect: nobody is refused")
        def _():
            refused("", lambda: ask(connect(credentials=False), "select 1"))

        @step("rights: a user without WRITE is refused, and reads")
        def _():
            with connect() as admin:
                ask(admin, "create table rights (ts timestamp, v int)")
                ask(admin, "drop user if exists adbc_reader")
                ask(admin, "create user adbc_reader password 'reads only, nothing else'")
                ask(admin, "grant read on adbc.* to adbc_reader")
            with connect(username="adbc_reader", password="reads only, nothing else") as reader:
                equal(ask(reader, "select count(*) from rights"), [(0,)])
                refused("not authorized", lambda: ask(reader, f"insert into rights values ({START_MS}, 1)"))
                with reader.cursor() as cursor:
                    refused("not authorized", lambda: cursor.adbc_ingest("rights", pyarrow.table({"ts": [START], "v": [1]}), mode="append"))
            with connect() as admin:
                ask(admin, "drop table rights")

    else:

        @step("connect: user and password where nobody is asked")
        def _():
            with connect(username="anyone", password="anything") as connection:
                equal(ask(connection, "select 1"), [(1,)])

    if target.tls:

        @step("tls: an unknown certificate is refused")
        def _():
            refused("certificate", lambda: ask(flight_sql.connect(target.grpc, autocommit=True), "select 1"))

        @step("tls: no look at the certificate")
        def _():
            skip = options() | {DatabaseOptions.TLS_SKIP_VERIFY.value: "true"}
            del skip[DatabaseOptions.TLS_ROOT_CERTS.value]
            with flight_sql.connect(target.grpc, db_kwargs=skip, autocommit=True) as connection:
                equal(ask(connection, "select 1"), [(1,)])

        def mutual(which=None):
            names = {DatabaseOptions.MTLS_CERT_CHAIN.value: f"{which}CERTIFICATE", DatabaseOptions.MTLS_PRIVATE_KEY.value: f"{which}KEY"}
            shown = {option: text_of(os.environ[f"CLIENT_{name}"]) for option, name in names.items()} if which is not None else {}
            return ask(connect(None, server=Target("CLIENT_MUTUAL_URL"), **shown), "select current_user()")

        @step("tls: a certificate and its key where the server wants them")
        def _():
            equal(mutual(""), [(target.user,)])

        @step("tls: no certificate, or a stranger's, where the server wants one is refused")
        def _():
            # The server's reason may be lost, because it closes the connection while the client still writes.
            refused("unavailable", mutual)
            refused("unavailable", lambda: mutual("WRONG_"))

    @step("connect: without autocommit, as DB-API wants it, with a warning alone")
    def _():
        with flight_sql.connect(target.grpc, db_kwargs=options()) as connection:
            equal(ask(connection, "select 1"), [(1,)])

    @step("connect: nobody listens")
    def _():
        refused("", lambda: ask(flight_sql.connect("grpc://127.0.0.1:1", autocommit=True), "select 1"))
