"""State of a connection: database, catalog, options."""

from adbc_driver_flightsql import ConnectionOptions, DatabaseOptions

from adbc_steps.common import ask, connect
from steps import equal, refused


def run(steps):
    step = steps.step

    @step("session: the database of the header")
    def _():
        with connect("adbc") as connection, connect(None) as none:
            equal(ask(connection, "select database()"), [("adbc",)])
            equal(ask(none, "select database()"), [(None,)])

    @step("session: current catalog and schema, with cookies")
    def _():
        with connect(None, **{DatabaseOptions.WITH_COOKIE_MIDDLEWARE.value: "true"}) as connection:
            equal(connection.adbc_current_catalog, "tidelake")
            connection.adbc_current_db_schema = "adbc"
            equal(connection.adbc_current_db_schema, "adbc")
            equal(ask(connection, "select database()"), [("adbc",)])
            equal(ask(connection, "select count(*) from many"), [(200,)])
            connection.adbc_current_catalog = "tidelake"

            def nosuch():
                connection.adbc_current_catalog = "nosuch"

            refused("", nosuch)

    @step("session: options, with cookies")
    def _():
        with connect(None, **{DatabaseOptions.WITH_COOKIE_MIDDLEWARE.value: "true"}) as connection:
            raw = connection.adbc_connection
            raw.set_options(**{ConnectionOptions.OPTION_SESSION_OPTION_PREFIX.value + "time_zone": "Asia/Shanghai"})
            equal(ask(connection, "select timezone()"), [("Asia/Shanghai",)])
            equal(raw.get_option(ConnectionOptions.OPTION_SESSION_OPTION_PREFIX.value + "time_zone"), "Asia/Shanghai")
            refused("", lambda: raw.set_options(**{ConnectionOptions.OPTION_SESSION_OPTION_PREFIX.value + "nosuch": "x"}))
            refused("", lambda: raw.set_options(**{ConnectionOptions.OPTION_SESSION_OPTION_PREFIX.value + "time_zone": "Nowhere/None"}))

    @step("session: USE, with cookies")
    def _():
        with connect(None, **{DatabaseOptions.WITH_COOKIE_MIDDLEWARE.value: "true"}) as connection:
            ask(connection, "use adbc")
            equal(ask(connection, "select database(), count(*) from many"), [("adbc", 200)])
