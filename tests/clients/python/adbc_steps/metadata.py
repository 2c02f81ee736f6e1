"""Catalogs, databases, tables, columns, and the server itself."""

from adbc_steps.common import connect
from steps import equal, refused


def run(steps):
    step = steps.step

    @step("metadata: who the server and the driver are")
    def _():
        with connect() as connection:
            info = connection.adbc_get_info()
            equal(info["vendor_name"], "Tidelake")
            equal(info["driver_name"], "ADBC Flight SQL Driver - Go")
            equal(info["vendor_version"].count("."), 2, "dots of the version")

    @step("metadata: table types")
    def _():
        with connect() as connection:
            equal(sorted(connection.adbc_get_table_types()), ["TABLE", "VIEW"])

    @step("metadata: the schema of a table")
    def _():
        with connect() as connection:
            schema = connection.adbc_get_table_schema("devices", db_schema_filter="adbc")
            equal([(f.name, str(f.type)) for f in schema],
                  [("ts", "timestamp[ns]"), ("v", "double"), ("devid", "int32"), ("devgroup", "string")])
            refused("", lambda: connection.adbc_get_table_schema("nosuch", db_schema_filter="adbc"))

    @step("metadata: objects of every depth")
    def _():
        with connect() as connection:
            catalogs = connection.adbc_get_objects(depth="catalogs").read_all().to_pylist()
            equal([c["catalog_name"] for c in catalogs], ["tidelake"])
            schemas = connection.adbc_get_objects(depth="db_schemas").read_all().to_pylist()[0]["catalog_db_schemas"]
            equal({"adbc", "information_schema"} <= {s["db_schema_name"] for s in schemas}, True, "databases are there")
            found = connection.adbc_get_objects(depth="tables", db_schema_filter="adbc", table_name_filter="dev%").read_all().to_pylist()
            tables = found[0]["catalog_db_schemas"][0]["db_schema_tables"]
            equal([(t["table_name"], t["table_type"]) for t in tables], [("devices", "TABLE")])
            found = connection.adbc_get_objects(depth="all", db_schema_filter="adbc", table_name_filter="devices").read_all().to_pylist()
            columns = found[0]["catalog_db_schemas"][0]["db_schema_tables"][0]["table_columns"]
            equal([(c["column_name"], c["ordinal_position"]) for c in columns], [("ts", 1), ("v", 2), ("devid", 3), ("devgroup", 4)])

    @step("metadata: objects by type and by column")
    def _():
        with connect() as connection:

            def tables(**filters):
                found = connection.adbc_get_objects(depth="all", db_schema_filter="adbc", **filters).read_all().to_pylist()
                return {t["table_name"]: [c["column_name"] for c in t["table_columns"]]
                        for catalog in found for s in catalog["catalog_db_schemas"] for t in s["db_schema_tables"]}

            equal(tables(table_types_filter=["VIEW"]), {})
            equal("devices" in tables(table_types_filter=["TABLE"]), True, "a table is a TABLE")
            equal(tables(table_name_filter="devices", column_name_filter="dev%"), {"devices": ["devid", "devgroup"]})
