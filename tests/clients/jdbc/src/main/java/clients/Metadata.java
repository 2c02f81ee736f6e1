package clients;

import static clients.Steps.equal;
import static clients.Steps.that;

import java.lang.reflect.Method;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.ResultSet;
import java.sql.Types;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;

/** What a browser of databases asks for before it shows anything. */
final class Metadata {
  private static final String SERIES = "create stable jdbc_meta.devices (ts timestamp, temperature float, ok bool, note nchar(12), small tinyint, "
      + "middle smallint, normal int, large bigint, usmall tinyint unsigned, umiddle smallint unsigned, unormal int unsigned, "
      + "ularge bigint unsigned, wide double, text varchar(40), bytes varbinary(7), later timestamp) tags (devid int, devgroup varchar(10))";
  /** Name, type of java.sql.Types, the server's name of the type: the order of the table. */
  private static final Object[][] COLUMNS = {
    {"ts", Types.TIMESTAMP, "TIMESTAMP"},
    {"temperature", Types.FLOAT, "FLOAT"},
    {"ok", Types.BOOLEAN, "BOOL"},
    {"note", Types.VARCHAR, "NCHAR"},
    {"small", Types.TINYINT, "TINYINT"},
    {"middle", Types.SMALLINT, "SMALLINT"},
    {"normal", Types.INTEGER, "INT"},
    {"large", Types.BIGINT, "BIGINT"},
    {"usmall", Types.SMALLINT, "TINYINT UNSIGNED"},
    {"umiddle", Types.INTEGER, "SMALLINT UNSIGNED"},
    {"unormal", Types.BIGINT, "INT UNSIGNED"},
    {"ularge", Types.BIGINT, "BIGINT UNSIGNED"},
    {"wide", Types.DOUBLE, "DOUBLE"},
    {"text", Types.VARCHAR, "VARCHAR"},
    {"bytes", Types.VARBINARY, "VARBINARY"},
    {"later", Types.TIMESTAMP, "TIMESTAMP"},
    {"devid", Types.INTEGER, "INT"},
    {"devgroup", Types.VARCHAR, "VARCHAR"},
  };

  private final Target target;
  private final Steps steps;

  Metadata(Target target, Steps steps) {
    this.target = target;
    this.steps = steps;
  }

  void run() throws Exception {
    try (Connection connection = target.open()) {
      Target.update(connection, "drop database if exists jdbc_meta");
      Target.update(connection, "create database jdbc_meta precision 'us'");
      Target.update(connection, SERIES);
      Target.update(connection, "create table jdbc_meta.de_vices (ts timestamp, v int)");
      Target.update(connection, "create table jdbc_meta.`deXvices` (ts timestamp, v int)");
      DatabaseMetaData metadata = connection.getMetaData();
      getters(metadata);
      names(connection, metadata);
      tables(metadata);
      columns(metadata);
      keys(metadata);
      rest(metadata);
    }
  }

  private void getters(DatabaseMetaData metadata) {
    Method[] methods = DatabaseMetaData.class.getMethods();
    Arrays.sort(methods, Comparator.comparing(Method::getName));
    steps.step("metadata: every getter without arguments answers", () -> {
      List<String> faults = new ArrayList<>();
      int called = 0;
      for (Method method : methods) {
        if (method.getParameterCount() > 0) {
          continue;
        }
        called++;
        try {
          Object value = method.invoke(metadata);
          if (value instanceof ResultSet rows) {
            while (rows.next()) {
              rows.getObject(1);
            }
            rows.close();
          } else if (value == null && method.getReturnType() == String.class && !method.getName().equals("getUserName")) {
            // The driver does not expose the user name.
            faults.add(method.getName() + " gives null");
          }
        } catch (Exception e) {
          faults.add(method.getName() + ": " + e.getCause());
        }
      }
      // The number defined by JDBC 4.3.
      equal(142, called, "getters");
      equal(List.of(), faults, "faults");
    });
    steps.step("metadata: who the server and the driver are", () -> {
      equal("Tidelake", metadata.getDatabaseProductName());
      that(metadata.getDatabaseProductVersion().matches("\\d+\\.\\d+\\.\\d+.*"), "a version: " + metadata.getDatabaseProductVersion());
      equal("\"", metadata.getIdentifierQuoteString());
      equal("\\", metadata.getSearchStringEscape());
      equal("database", metadata.getSchemaTerm());
      equal("catalog", metadata.getCatalogTerm());
      that(!metadata.isReadOnly(), "the server takes writes");
      that(!metadata.supportsTransactions(), "no transactions");
      that(metadata.isCatalogAtStart(), "a catalog stands first");
      that(metadata.supportsBatchUpdates(), "batches");
      that(metadata.supportsANSI92EntryLevelSQL(), "SQL-92 entry level");
      that(!metadata.supportsANSI92FullSQL(), "not all of SQL-92");
      that(metadata.supportsFullOuterJoins(), "full outer joins");
      that(metadata.supportsUnionAll(), "UNION ALL");
      that(metadata.supportsGroupBy(), "GROUP BY");
      that(!metadata.supportsStoredProcedures(), "no procedures");
      that(!metadata.supportsSavepoints(), "no savepoints");
      that(metadata.supportsSchemasInDataManipulation(), "databases in queries");
      that(metadata.supportsCatalogsInTableDefinitions(), "catalogs in DDL");
      equal(192, metadata.getMaxTableNameLength());
      equal(Connection.TRANSACTION_NONE, metadata.getDefaultTransactionIsolation());
    });
    steps.step("metadata: words and functions that it lists work", () -> {
      that(Arrays.asList(metadata.getSQLKeywords().split(", *")).contains("INTERVAL"), "INTERVAL is a word: " + metadata.getSQLKeywords());
      Connection connection = metadata.getConnection();
      List<String> faults = new ArrayList<>();
      for (String name : metadata.getNumericFunctions().split(", *")) {
        String call = switch (name) {
          case "pi", "random" -> name + "()";
          case "atan2", "power" -> name + "(1, 2)";
          case "log" -> name + "(2, 1)";
          default -> name + "(1)";
        };
        try {
          Target.one(connection, "select " + call);
        } catch (Exception e) {
          faults.add(name + ": " + e.getMessage());
        }
      }
      for (String name : metadata.getSystemFunctions().split(", *")) {
        String call = switch (name) {
          case "coalesce" -> "coalesce(null, 1)";
          case "nullif" -> "nullif(1, 2)";
          default -> name + "()";
        };
        try {
          Target.one(connection, "select " + call);
        } catch (Exception e) {
          faults.add(name + ": " + e.getMessage());
        }
      }
      equal(List.of(), faults, "faults");
    });
    steps.step("metadata: questions with arguments", () -> {
      that(metadata.supportsResultSetType(ResultSet.TYPE_FORWARD_ONLY), "results go forward");
      that(!metadata.supportsResultSetType(ResultSet.TYPE_SCROLL_SENSITIVE), "and not back");
      that(!metadata.supportsConvert(Types.INTEGER, Types.VARCHAR), "CONVERT is not listed");
      that(metadata.supportsTransactionIsolationLevel(Connection.TRANSACTION_NONE), "no isolation");
      that(!metadata.supportsTransactionIsolationLevel(Connection.TRANSACTION_SERIALIZABLE), "not serializable");
    });
  }

  private void names(Connection connection, DatabaseMetaData metadata) {
    steps.step("metadata: getCatalogs", () -> equal(List.of("tidelake"), Target.column(metadata.getCatalogs(), "TABLE_CAT")));
    steps.step("metadata: getSchemas lists each database and information_schema", () -> {
      var expected = new TreeSet<>(Target.column(connection, "select name from information_schema.ins_databases"));
      expected.add("information_schema");
      that(expected.contains("jdbc_meta"), "the database is there");
      var found = new ArrayList<>();
      try (ResultSet rows = metadata.getSchemas()) {
        while (rows.next()) {
          found.add(rows.getString("TABLE_SCHEM"));
          equal("tidelake", rows.getString("TABLE_CATALOG"));
        }
      }
      equal(expected, new TreeSet<>(found));
      equal(expected.size(), found.size(), "databases");
    });
    steps.step("metadata: getSchemas with a pattern", () -> {
      equal(List.of("jdbc_meta"), Target.column(metadata.getSchemas(null, "jdbc_m%"), "TABLE_SCHEM"));
      equal(List.of("jdbc_meta"), Target.column(metadata.getSchemas("tidelake", "jdbc_met_"), "TABLE_SCHEM"));
      equal(List.of(), Target.column(metadata.getSchemas("nosuch", null), "TABLE_SCHEM"));
      equal(List.of(), Target.column(metadata.getSchemas(null, "nosuch"), "TABLE_SCHEM"));
    });
    steps.step("metadata: getTableTypes", () ->
        equal(new TreeSet<>(List.of("TABLE", "VIEW")), new TreeSet<>(Target.column(metadata.getTableTypes(), "TABLE_TYPE"))));
  }

  private static TreeSet<Object> tables(DatabaseMetaData metadata, String catalog, String schema, String name, String... types) throws Exception {
    try (ResultSet rows = metadata.getTables(catalog, schema, name, types.length == 0 ? null : types)) {
      return new TreeSet<>(Target.column(rows, "TABLE_NAME"));
    }
  }

  private void tables(DatabaseMetaData metadata) {
    TreeSet<Object> all = new TreeSet<>(List.of("devices", "de_vices", "deXvices"));
    steps.step("metadata: getTables of everything", () -> {
      Map<String, String> types = new TreeMap<>();
      try (ResultSet rows = metadata.getTables(null, null, null, null)) {
        while (rows.next()) {
          equal("tidelake", rows.getString("TABLE_CAT"));
          types.put(rows.getString("TABLE_SCHEM") + "." + rows.getString("TABLE_NAME"), rows.getString("TABLE_TYPE"));
        }
      }
      equal("TABLE", types.get("jdbc_meta.devices"));
      equal("VIEW", types.get("information_schema.tables"));
    });
    steps.step("metadata: getTables of a database", () -> {
      equal(all, tables(metadata, null, "jdbc_meta", null));
      equal(all, tables(metadata, "tidelake", "jdbc_meta", "%"));
      equal(all, tables(metadata, "", "jdbc_meta", "%"));
      equal(new TreeSet<>(), tables(metadata, "nosuch", "jdbc_meta", "%"));
    });
    steps.step("metadata: getTables with patterns", () -> {
      equal(new TreeSet<>(List.of("devices")), tables(metadata, null, "jdbc_meta", "dev%"));
      equal(new TreeSet<>(List.of("de_vices", "deXvices")), tables(metadata, null, "jdbc_meta", "de_vices"));
      equal(new TreeSet<>(List.of("de_vices")), tables(metadata, null, "jdbc_meta", "de\\_vices"));
      equal(new TreeSet<>(), tables(metadata, null, "jdbc_meta", "nosuch"));
    });
    steps.step("metadata: getTables by type", () -> {
      equal(all, tables(metadata, null, "jdbc_meta", "%", "TABLE"));
      equal(all, tables(metadata, null, "jdbc_meta", "%", "TABLE", "VIEW"));
      equal(all, tables(metadata, null, "jdbc_meta", "%", "BASE TABLE"));
      equal(new TreeSet<>(), tables(metadata, null, "jdbc_meta", "%", "VIEW"));
      equal(new TreeSet<>(), tables(metadata, null, "jdbc_meta", "%", "ALIAS"));
      that(tables(metadata, null, "information_schema", "%", "VIEW").contains("columns"), "views of information_schema");
    });
  }

  private void columns(DatabaseMetaData metadata) {
    steps.step("metadata: getColumns gives names, types and places", () -> {
      int i = 0;
      try (ResultSet rows = metadata.getColumns(null, "jdbc_meta", "devices", null)) {
        while (rows.next()) {
          Object[] column = COLUMNS[i++];
          String name = (String) column[0];
          equal(name, rows.getString("COLUMN_NAME"));
          equal("tidelake", rows.getString("TABLE_CAT"));
          equal("jdbc_meta", rows.getString("TABLE_SCHEM"));
          equal("devices", rows.getString("TABLE_NAME"));
          equal(column[1], rows.getInt("DATA_TYPE"), "type of " + name);
          equal(i, rows.getInt("ORDINAL_POSITION"), "place of " + name);
        }
      }
      equal(COLUMNS.length, i, "columns");
    });
    steps.step("metadata: getColumns gives widths of texts and digits of times", () -> {
      Map<String, Integer> sizes = new TreeMap<>();
      Map<String, String> nullable = new TreeMap<>();
      try (ResultSet rows = metadata.getColumns("tidelake", "jdbc_meta", "devices", "%")) {
        while (rows.next()) {
          sizes.put(rows.getString("COLUMN_NAME"), rows.getInt("COLUMN_SIZE"));
          nullable.put(rows.getString("COLUMN_NAME"), rows.getString("IS_NULLABLE"));
        }
      }
      equal(40, sizes.get("text"), "width of text");
      equal(12, sizes.get("note"), "width of note");
      equal(7, sizes.get("bytes"), "width of bytes");
      equal("NO", nullable.get("ts"), "the time may be null");
      equal("YES", nullable.get("temperature"), "a field may be null");
    });
    steps.step("metadata: getColumns gives the server's name of a type", () -> {
      try (ResultSet rows = metadata.getColumns(null, "jdbc_meta", "devices", null)) {
        for (int i = 0; rows.next(); i++) {
          equal(COLUMNS[i][2], rows.getString("TYPE_NAME"), "type of " + COLUMNS[i][0]);
        }
      }
    });
    steps.step("metadata: getColumns with patterns of columns and tables", () -> {
      equal(List.of("devid", "devgroup"), Target.column(metadata.getColumns(null, "jdbc_meta", "devices", "dev%"), "COLUMN_NAME"));
      equal(List.of("ts", "ok"), Target.column(metadata.getColumns(null, "jdbc_meta", "devices", "__"), "COLUMN_NAME"));
      equal(List.of("de_vices", "deXvices", "devices"),
          Target.column(metadata.getColumns(null, "jdbc_meta", "de%", "ts"), "TABLE_NAME").stream()
              .map(Object::toString).sorted((a, b) -> a.replace('X', 'a').compareTo(b.replace('X', 'a'))).toList());
      equal(List.of(), Target.column(metadata.getColumns(null, "jdbc_meta", "nosuch", null), "COLUMN_NAME"));
    });
    steps.step("metadata: getColumns of every table and view", () -> {
      Map<String, Integer> counts = new TreeMap<>();
      try (ResultSet rows = metadata.getColumns(null, null, null, null)) {
        while (rows.next()) {
          counts.merge(rows.getString("TABLE_SCHEM") + "." + rows.getString("TABLE_NAME"), 1, Integer::sum);
        }
      }
      equal(COLUMNS.length, counts.get("jdbc_meta.devices"));
      that(counts.get("information_schema.columns") > 3, "views have columns");
    });
  }

  private void keys(DatabaseMetaData metadata) {
    steps.step("metadata: getPrimaryKeys is the series and the time", () -> {
      List<String> keys = new ArrayList<>();
      try (ResultSet rows = metadata.getPrimaryKeys(null, "jdbc_meta", "devices")) {
        while (rows.next()) {
          equal("jdbc_meta", rows.getString("TABLE_SCHEM"));
          keys.add(rows.getShort("KEY_SEQ") + " " + rows.getString("COLUMN_NAME"));
        }
      }
      equal(List.of("1 tbname", "2 ts"), keys);
      equal(List.of(), Target.column(metadata.getPrimaryKeys(null, "jdbc_meta", "nosuch"), "COLUMN_NAME"));
      equal(List.of(), Target.column(metadata.getPrimaryKeys("nosuch", "jdbc_meta", "devices"), "COLUMN_NAME"));
    });
    steps.step("metadata: there are no foreign keys", () -> {
      equal(List.of(), Target.column(metadata.getImportedKeys(null, "jdbc_meta", "devices"), 1));
      equal(List.of(), Target.column(metadata.getExportedKeys(null, "jdbc_meta", "devices"), 1));
      equal(List.of(), Target.column(
          metadata.getCrossReference(null, "jdbc_meta", "devices", null, "jdbc_meta", "de_vices"), 1));
    });
  }

  /** The driver answers these by itself, without rows; tools call them and must not fail. */
  private void rest(DatabaseMetaData metadata) {
    String schema = "jdbc_meta";
    String table = "devices";
    steps.step("metadata: what the driver answers without the server", () -> {
      equal(List.of(), Target.column(metadata.getTypeInfo(), 1));
      equal(List.of(), Target.column(metadata.getIndexInfo(null, schema, table, false, true), 1));
      equal(List.of(), Target.column(metadata.getProcedures(null, schema, null), 1));
      equal(List.of(), Target.column(metadata.getProcedureColumns(null, schema, null, null), 1));
      equal(List.of(), Target.column(metadata.getFunctions(null, schema, null), 1));
      equal(List.of(), Target.column(metadata.getFunctionColumns(null, schema, null, null), 1));
      equal(List.of(), Target.column(metadata.getUDTs(null, schema, null, null), 1));
      equal(List.of(), Target.column(metadata.getTablePrivileges(null, schema, table), 1));
      equal(List.of(), Target.column(metadata.getColumnPrivileges(null, schema, table, null), 1));
      equal(List.of(), Target.column(metadata.getBestRowIdentifier(null, schema, table, 0, true), 1));
      equal(List.of(), Target.column(metadata.getVersionColumns(null, schema, table), 1));
      equal(List.of(), Target.column(metadata.getSuperTypes(null, schema, null), 1));
      equal(List.of(), Target.column(metadata.getSuperTables(null, schema, table), 1));
      equal(List.of(), Target.column(metadata.getAttributes(null, schema, null, null), 1));
      equal(List.of(), Target.column(metadata.getPseudoColumns(null, schema, table, null), 1));
      equal(List.of(), Target.column(metadata.getClientInfoProperties(), 1));
    });
  }
}
