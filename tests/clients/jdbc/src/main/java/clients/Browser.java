package clients;

import static clients.Steps.equal;
import static clients.Steps.that;

import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.Statement;
import java.sql.Timestamp;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** What DBeaver does with a driver that it knows nothing about: connects, shows the tree, opens a table, runs a script. */
final class Browser {
  private static final long TIME = 1_563_249_700_000L;

  private final Target target;
  private final Steps steps;

  Browser(Target target, Steps steps) {
    this.target = target;
    this.steps = steps;
  }

  void run() throws Exception {
    try (Connection connection = target.open()) {
      Target.update(connection, "drop database if exists jdbc_browser");
      Target.update(connection, "create database jdbc_browser");
      DatabaseMetaData metadata = connection.getMetaData();
      steps.step("dbeaver: the connection", () -> connection(connection, metadata));
      steps.step("dbeaver: a script, statement by statement", () -> script(connection));
      steps.step("dbeaver: the tree down to columns and keys", () -> tree(metadata));
      steps.step("dbeaver: the rows of a table, with what is known of each column", () -> rows(connection));
    }
  }

  private static void connection(Connection connection, DatabaseMetaData metadata) throws Exception {
    connection.setAutoCommit(true);
    connection.setReadOnly(false);
    that(!connection.isReadOnly(), "the connection writes");
    equal(Connection.TRANSACTION_NONE, connection.getTransactionIsolation());
    that(connection.isValid(5), "the connection is valid");
    equal("Tidelake", metadata.getDatabaseProductName());
    that(metadata.getDriverName() != null && metadata.getDriverVersion() != null, "the driver says who it is");
    equal("\"", metadata.getIdentifierQuoteString());
    equal(".", metadata.getCatalogSeparator());
    that(metadata.supportsSchemasInDataManipulation() && metadata.supportsCatalogsInDataManipulation(), "names have all their parts");
  }

  /** Each statement goes through execute(), and all that it gives is asked for. */
  private static List<Object> execute(Connection connection, String sql) throws Exception {
    List<Object> found = new ArrayList<>();
    try (Statement statement = connection.createStatement(ResultSet.TYPE_FORWARD_ONLY, ResultSet.CONCUR_READ_ONLY)) {
      statement.setFetchSize(200);
      boolean rows = statement.execute(sql);
      for (int i = 0; i < 10 && (rows || statement.getUpdateCount() >= 0); i++) {
        if (rows) {
          found.addAll(Target.column(statement.getResultSet(), 1));
        } else {
          found.add("updated " + statement.getUpdateCount());
        }
        rows = statement.getMoreResults();
      }
    }
    return found;
  }

  private static void script(Connection connection) throws Exception {
    equal(List.of("updated 0"), execute(connection,
        "create stable jdbc_browser.devices (ts timestamp, v double, note varchar(40)) tags (devid int)"));
    equal(List.of("updated 3"), execute(connection, "insert into jdbc_browser.devices (tbname, ts, v, note, devid) values ('d1', " + TIME
        + ", 1.5, 'a', 1) ('d1', " + (TIME + 1) + ", 2.5, null, 1) ('d2', " + TIME + ", 3.5, 'c', 2)"));
    equal(List.of("updated 1"), execute(connection, "delete from jdbc_browser.devices where devid = 2"));
    equal(List.of(2L), execute(connection, "SELECT count(*) FROM jdbc_browser.devices"));
  }

  private static void tree(DatabaseMetaData metadata) throws Exception {
    equal(List.of("tidelake"), Target.column(metadata.getCatalogs(), "TABLE_CAT"));
    that(Target.column(metadata.getSchemas("tidelake", null), "TABLE_SCHEM").contains("jdbc_browser"), "the database is there");
    that(Target.column(metadata.getTableTypes(), "TABLE_TYPE").contains("TABLE"), "there are tables");
    equal(List.of("devices"), Target.column(metadata.getTables("tidelake", "jdbc_browser", "%", null), "TABLE_NAME"));
    List<String> columns = new ArrayList<>();
    try (ResultSet rows = metadata.getColumns("tidelake", "jdbc_browser", "devices", "%")) {
      while (rows.next()) {
        columns.add(rows.getInt("ORDINAL_POSITION") + " " + rows.getString("COLUMN_NAME") + " " + rows.getString("TYPE_NAME"));
        for (String name : List.of("COLUMN_SIZE", "DECIMAL_DIGITS", "NULLABLE", "CHAR_OCTET_LENGTH", "REMARKS", "COLUMN_DEF", "IS_AUTOINCREMENT")) {
          rows.getObject(name);
        }
      }
    }
    equal(List.of("1 ts TIMESTAMP", "2 v DOUBLE", "3 note VARCHAR", "4 devid INT"), columns);
    equal(List.of("tbname", "ts"), Target.column(metadata.getPrimaryKeys("tidelake", "jdbc_browser", "devices"), "COLUMN_NAME"));
    equal(List.of(), Target.column(metadata.getIndexInfo("tidelake", "jdbc_browser", "devices", false, true), 1));
    equal(List.of(), Target.column(metadata.getImportedKeys("tidelake", "jdbc_browser", "devices"), 1));
    equal(List.of(), Target.column(metadata.getExportedKeys("tidelake", "jdbc_browser", "devices"), 1));
  }

  private static void rows(Connection connection) throws Exception {
    for (String name : List.of("tidelake.jdbc_browser.devices", "\"tidelake\".\"jdbc_browser\".\"devices\"", "jdbc_browser.devices")) {
      try (Statement statement = connection.createStatement(ResultSet.TYPE_FORWARD_ONLY, ResultSet.CONCUR_READ_ONLY)) {
        statement.setFetchSize(200);
        statement.setMaxRows(200);
        that(statement.execute("SELECT x.* FROM " + name + " x ORDER BY x.ts LIMIT 200"), "there are rows");
        try (ResultSet rows = statement.getResultSet()) {
          Map<String, String> types = new TreeMap<>();
          ResultSetMetaData known = rows.getMetaData();
          for (int i = 1; i <= known.getColumnCount(); i++) {
            types.put(known.getColumnLabel(i), known.getColumnTypeName(i));
            known.getColumnClassName(i);
            known.getPrecision(i);
            known.getScale(i);
            known.getColumnDisplaySize(i);
            known.isNullable(i);
            known.isAutoIncrement(i);
            known.isReadOnly(i);
            known.getCatalogName(i);
            known.getSchemaName(i);
            known.getTableName(i);
          }
          equal(Map.of("ts", "TIMESTAMP", "v", "DOUBLE", "note", "VARCHAR", "devid", "INTEGER"), types);
          that(rows.next(), "a first row");
          equal(new Timestamp(TIME), rows.getTimestamp("ts"));
          equal(1.5, rows.getObject("v"));
          equal("a", rows.getString("note"));
          that(rows.next(), "a second row");
          equal(null, rows.getObject("note"));
          that(rows.wasNull(), "it was null");
          equal(1, rows.getObject("devid"));
          that(!rows.next(), "two rows");
        }
      }
    }
  }
}
