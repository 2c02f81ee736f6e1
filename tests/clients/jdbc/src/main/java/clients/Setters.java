package clients;

import static clients.Steps.equal;
import static clients.Steps.refused;
import static clients.Steps.that;

import java.io.ByteArrayInputStream;
import java.io.StringReader;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.sql.Timestamp;
import java.sql.Types;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Calendar;
import java.util.List;
import java.util.TimeZone;
import java.util.UUID;

/** Every setter of a parameter, into a column and against it: what comes back is what was sent. */
final class Setters {
  private static final long TIME = 1_563_249_700_000L;
  /** What a parameter can be at the other server. */
  private static final List<String> PARAMETERS = List.of("bool", "int64", "float64", "utf8", "binary", "decimal", "date32", "date64", "time32",
      "time64", "timestamp", "timestamp9");

  interface Set {
    void on(PreparedStatement statement, int place) throws Exception;
  }

  /** A value as a setter takes it, and as the column gives it. */
  private record Value(Object column, Set set) {}

  private final Target target;
  private final Steps steps;
  private Connection connection;

  Setters(Target target, Steps steps) {
    this.target = target;
    this.steps = steps;
  }

  private static Value value(Object column, Set set) {
    return new Value(column, set);
  }

  void run() throws Exception {
    connection = target.open("jdbc");
    try {
      Target.update(connection, "create table typed (ts timestamp, b bool, i8 tinyint, i16 smallint, i32 int, i64 bigint, u8 tinyint unsigned, "
          + "u16 smallint unsigned, u32 int unsigned, u64 bigint unsigned, f float, x double, s varchar(60), n nchar(40), v varbinary(40), "
          + "later timestamp)");
      integers();
      numbers();
      rest();
      days();
      nulls();
      refusedByTheDriver();
    } finally {
      try {
        connection.close();
      } catch (SQLException e) {
        // When the driver refuses a value, it leaks the buffers of earlier values and then reports the leak.
      }
    }
  }

  /** Writes each value into a row of its own, reads them all, and finds each row by its value alone. */
  private void both(String column, Value... values) throws Exception {
    String what = column + ": ";
    try (PreparedStatement insert = connection.prepareStatement("insert into typed (ts, " + column + ") values (?, ?)")) {
      for (int i = 0; i < values.length; i++) {
        insert.setTimestamp(1, new Timestamp(TIME + i));
        values[i].set.on(insert, 2);
        equal(1, insert.executeUpdate(), what + "rows written");
      }
    }
    List<Object> found = Target.column(connection, "select " + column + " from typed order by ts");
    equal(values.length, found.size(), what + "rows");
    try (PreparedStatement select = connection.prepareStatement("select ts from typed where " + column + " = ?");
        PreparedStatement delete = connection.prepareStatement("delete from typed where ts = ?")) {
      for (int i = 0; i < values.length; i++) {
        equal(values[i].column, found.get(i), what + "value " + i);
        values[i].set.on(select, 1);
        equal(List.of(new Timestamp(TIME + i)), Target.column(select.executeQuery(), 1), what + "row of value " + i);
      }
      for (int i = 0; i < values.length; i++) {
        delete.setTimestamp(1, new Timestamp(TIME + i));
        equal(1, delete.executeUpdate(), what + "rows deleted");
      }
    }
  }

  private void integers() {
    steps.step("prepared: setByte, setShort, setInt and setLong into every integer and back", () -> {
      both("i8", value((byte) -127, (s, i) -> s.setByte(i, (byte) -127)), value((byte) 127, (s, i) -> s.setByte(i, (byte) 127)));
      both("i16", value((short) -32767, (s, i) -> s.setShort(i, (short) -32767)), value((short) 8, (s, i) -> s.setByte(i, (byte) 8)));
      both("i32", value(-2147483647, (s, i) -> s.setInt(i, -2147483647)), value(16, (s, i) -> s.setShort(i, (short) 16)));
      both("i64", value(-Long.MAX_VALUE, (s, i) -> s.setLong(i, -Long.MAX_VALUE)), value(Long.MAX_VALUE, (s, i) -> s.setLong(i, Long.MAX_VALUE)),
          value(32L, (s, i) -> s.setInt(i, 32)));
      both("u8", value((short) 255, (s, i) -> s.setShort(i, (short) 255)), value((short) 0, (s, i) -> s.setByte(i, (byte) 0)));
      both("u16", value(65535, (s, i) -> s.setInt(i, 65535)), value(7, (s, i) -> s.setLong(i, 7)));
      both("u32", value(4294967295L, (s, i) -> s.setLong(i, 4294967295L)), value(7L, (s, i) -> s.setInt(i, 7)));
      both("u64", value(Long.MAX_VALUE, (s, i) -> s.setLong(i, Long.MAX_VALUE)), value(0L, (s, i) -> s.setLong(i, 0)));
    });
    steps.step("prepared: setObject of Byte, Short, Integer, Long and BigInteger, into integers and back", () -> {
      both("i8", value((byte) -8, (s, i) -> s.setObject(i, (byte) -8)), value((byte) 8, (s, i) -> s.setObject(i, 8, Types.TINYINT)));
      both("i16", value((short) -16, (s, i) -> s.setObject(i, (short) -16)), value((short) 16, (s, i) -> s.setObject(i, 16, Types.SMALLINT)));
      both("i32", value(-32, (s, i) -> s.setObject(i, -32)), value(32, (s, i) -> s.setObject(i, "32", Types.INTEGER)));
      both("i64", value(-64L, (s, i) -> s.setObject(i, -64L)), value(64L, (s, i) -> s.setObject(i, new BigInteger("64"))),
          value(65L, (s, i) -> s.setObject(i, 65, Types.BIGINT)));
    });
    steps.step("prepared: an integer out of its column's range is refused", () -> {
      for (String column : List.of("i8", "i16", "i32", "u8", "u16", "u32")) {
        try (PreparedStatement insert = connection.prepareStatement("insert into typed (ts, " + column + ") values (?, ?)")) {
          insert.setTimestamp(1, new Timestamp(TIME));
          insert.setLong(2, 4294967296L);
          refused("", insert::executeUpdate);
        }
      }
      equal(0L, Target.one(connection, "select count(*) from typed"));
    });
  }

  private void numbers() {
    steps.step("prepared: setFloat and setDouble, into their columns and back", () -> {
      // The driver returns floats as doubles.
      both("f", value((double) 0.1f, (s, i) -> s.setFloat(i, 0.1f)), value((double) -Float.MAX_VALUE, (s, i) -> s.setFloat(i, -Float.MAX_VALUE)),
          value(1.5, (s, i) -> s.setDouble(i, 1.5)), value(2.5, (s, i) -> s.setObject(i, 2.5f)));
      both("x", value(0.1, (s, i) -> s.setDouble(i, 0.1)), value(Double.MAX_VALUE, (s, i) -> s.setDouble(i, Double.MAX_VALUE)),
          value(Double.MIN_VALUE, (s, i) -> s.setDouble(i, Double.MIN_VALUE)), value(1.5, (s, i) -> s.setFloat(i, 1.5f)),
          value(-2.25, (s, i) -> s.setObject(i, -2.25)), value(3.0, (s, i) -> s.setObject(i, 3.0, Types.DOUBLE)), value(7.0, (s, i) -> s.setInt(i, 7)));
    });
    steps.step("prepared: setBigDecimal, into numbers and back", () -> {
      both("x", value(0.1, (s, i) -> s.setBigDecimal(i, new BigDecimal("0.1"))),
          value(-123456789012.25, (s, i) -> s.setBigDecimal(i, new BigDecimal("-123456789012.25"))),
          value(1e30, (s, i) -> s.setObject(i, new BigDecimal("1e30"))), value(7.5, (s, i) -> s.setObject(i, new BigDecimal("7.5"), Types.DECIMAL)),
          value(8.5, (s, i) -> s.setObject(i, new BigDecimal("8.5"), Types.NUMERIC)));
      both("f", value(0.5, (s, i) -> s.setBigDecimal(i, new BigDecimal("0.5"))));
      both("i64", value(Long.MAX_VALUE, (s, i) -> s.setBigDecimal(i, new BigDecimal("9223372036854775807"))),
          value(-5L, (s, i) -> s.setBigDecimal(i, new BigDecimal("-5"))));
      both("u64", value(9L, (s, i) -> s.setBigDecimal(i, new BigDecimal("9"))));
    });
    steps.step("prepared: setBigDecimal and setDouble against DECIMAL", () -> {
      try (PreparedStatement select = connection.prepareStatement(
          "select value from generate_series(1, 100) where cast(value as decimal(20, 2)) / 4 = ?")) {
        select.setBigDecimal(1, new BigDecimal("1.75"));
        equal(List.of(7L), Target.column(select.executeQuery(), 1));
        select.setDouble(1, 2.25);
        equal(List.of(9L), Target.column(select.executeQuery(), 1));
      }
    });
  }

  private void rest() {
    steps.step("prepared: setBoolean, into its column and back", () -> {
      both("b", value(true, (s, i) -> s.setBoolean(i, true)), value(false, (s, i) -> s.setBoolean(i, false)));
      both("b", value(false, (s, i) -> s.setObject(i, false)), value(true, (s, i) -> s.setObject(i, true, Types.BOOLEAN)));
    });
    steps.step("prepared: setString and setNString, into texts and back", () -> {
      for (String column : List.of("s", "n")) {
        both(column, value("it's", (s, i) -> s.setString(i, "it's")), value("", (s, i) -> s.setString(i, "")),
            value("? -- \\ \" \n", (s, i) -> s.setString(i, "? -- \\ \" \n")), value("日本 🌊", (s, i) -> s.setNString(i, "日本 🌊")),
            value("object", (s, i) -> s.setObject(i, "object")), value("text", (s, i) -> s.setObject(i, "text", Types.VARCHAR)));
      }
    });
    steps.step("prepared: setBytes, into bytes and back", () ->
        both("v", value(new byte[] {0, -1, 0x7a}, (s, i) -> s.setBytes(i, new byte[] {0, -1, 0x7a})), value(new byte[0], (s, i) -> s.setBytes(i, new byte[0])),
            value(new byte[] {1}, (s, i) -> s.setObject(i, new byte[] {1})), value(new byte[] {2}, (s, i) -> s.setObject(i, new byte[] {2}, Types.VARBINARY))));
    steps.step("prepared: setTimestamp and java.util.Date, into times and back", () -> {
      Timestamp leap = Timestamp.valueOf("2020-02-29 23:59:59.999");
      Timestamp old = Timestamp.valueOf("1969-12-31 23:59:59.001");
      Calendar utc = Calendar.getInstance(TimeZone.getTimeZone("UTC"));
      both("later", value(leap, (s, i) -> s.setTimestamp(i, leap)), value(old, (s, i) -> s.setTimestamp(i, old)),
          value(new Timestamp(0), (s, i) -> s.setTimestamp(i, new Timestamp(0), utc)),
          value(new Timestamp(1), (s, i) -> s.setObject(i, new Timestamp(1))),
          value(new Timestamp(2), (s, i) -> s.setObject(i, new java.util.Date(2))));
    });
  }

  private void days() {
    String days = "(values (date '2020-02-29'), (date '1969-12-31')) as days (v)";
    String times = "(values (time '12:34:56'), (time '00:00:01.002')) as times (v)";
    steps.step("prepared: setDate, against a DATE", () -> {
      for (String text : List.of("2020-02-29", "1969-12-31")) {
        java.sql.Date day = java.sql.Date.valueOf(text);
        Calendar utc = Calendar.getInstance(TimeZone.getTimeZone("UTC"));
        for (Set set : List.<Set>of((s, i) -> s.setDate(i, day), (s, i) -> s.setDate(i, day, utc), (s, i) -> s.setObject(i, day))) {
          equal(List.of(day), query(connection, "select v from " + days + " where v = ?", set), text);
        }
      }
    });
    steps.step("prepared: setTime, against a TIME", () -> {
      java.sql.Time noon = java.sql.Time.valueOf("12:34:56");
      for (Set set : List.<Set>of((s, i) -> s.setTime(i, noon), (s, i) -> s.setObject(i, noon))) {
        equal(List.of(noon), query(connection, "select v from " + times + " where v >= ?", set), "the later one");
      }
      equal(List.of(2L), query(connection, "select count(*) from " + times + " where v >= ?", (s, i) -> s.setTime(i, new java.sql.Time(1002))), "both");
    });
  }

  private void nulls() {
    steps.step("prepared: nulls by every setter, into every column and against it", () -> {
      List<Set> sets = List.of((s, i) -> s.setNull(i, Types.NULL), (s, i) -> s.setNull(i, Types.INTEGER), (s, i) -> s.setNull(i, Types.VARCHAR),
          (s, i) -> s.setNull(i, Types.TIMESTAMP), (s, i) -> s.setNull(i, Types.DATE), (s, i) -> s.setNull(i, Types.TIME),
          (s, i) -> s.setNull(i, Types.DECIMAL), (s, i) -> s.setNull(i, Types.VARBINARY), (s, i) -> s.setNull(i, Types.BOOLEAN, "BOOL"),
          (s, i) -> s.setObject(i, null), (s, i) -> s.setObject(i, null, Types.DOUBLE), (s, i) -> s.setString(i, null),
          (s, i) -> s.setBigDecimal(i, null), (s, i) -> s.setBytes(i, null), (s, i) -> s.setDate(i, null), (s, i) -> s.setTime(i, null),
          (s, i) -> s.setTimestamp(i, null));
      for (String column : List.of("b", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f", "x", "s", "n", "v", "later")) {
        try (PreparedStatement insert = connection.prepareStatement("insert into typed (ts, " + column + ") values (?, ?)");
            PreparedStatement select = connection.prepareStatement("select ts from typed where " + column + " = ?")) {
          for (int n = 0; n < sets.size(); n++) {
            insert.setTimestamp(1, new Timestamp(TIME + n));
            sets.get(n).on(insert, 2);
            insert.addBatch();
          }
          equal(sets.size(), Arrays.stream(insert.executeBatch()).sum(), "rows of nulls in " + column);
          for (Set set : sets) {
            set.on(select, 1);
            equal(List.of(), Target.column(select.executeQuery(), 1), "nothing equals null in " + column);
          }
        }
        equal((long) sets.size(), Target.one(connection, "select count(*) from typed where " + column + " is null"), column);
        equal((long) sets.size(), Target.update(connection, "delete from typed where ts >= " + TIME), column);
      }
    });
  }

  /** What the driver takes for no type at all, and what it does not take for the only type that suits. */
  private void refusedByTheDriver() {
    List<Object> objects = List.of(LocalDateTime.parse("2020-02-29T01:02:03"), LocalDate.parse("2020-02-29"), LocalTime.parse("01:02:03"),
        Instant.parse("2020-02-29T01:02:03Z"), OffsetDateTime.parse("2020-02-29T01:02:03Z"), new UUID(1, 2));
    for (Object object : objects) {
      String column = object instanceof UUID ? "s" : "later";
      steps.known("prepared: setObject of " + object.getClass().getSimpleName(), "the driver has it as an object, which none of its parameters takes",
          "Binding value of type OBJECT is not yet supported",
          () -> query(connection, "select ts from typed where " + column + " = ?", (s, i) -> s.setObject(i, object)),
          () -> nowhere((s, i) -> s.setObject(i, object)));
    }
    steps.known("prepared: setDate of a TIMESTAMP", "the driver makes days of it, and takes none for a timestamp",
        "Binding value of type JAVA_SQL_DATE is not yet supported for expected Arrow type Timestamp(MILLISECOND, null)",
        () -> query(connection, "select ts from typed where later = ?", (s, i) -> s.setDate(i, java.sql.Date.valueOf("2020-02-29"))),
        () -> {
          try (Connection other = Target.other().open()) {
            query(other, "select ? /* parameters: timestamp */", (s, i) -> s.setDate(i, java.sql.Date.valueOf("2020-02-29")));
          }
        });
    steps.known("prepared: setObject of a Timestamp as Types.TIMESTAMP", "the driver wants a number for that, or a text that is one",
        "Cannot convert from java.sql.Timestamp to long",
        () -> query(connection, "select ts from typed where later = ?", (s, i) -> s.setObject(i, new Timestamp(TIME), Types.TIMESTAMP)),
        () -> nowhere((s, i) -> s.setObject(i, new Timestamp(TIME), Types.TIMESTAMP)));
    steps.known("prepared: setCharacterStream", "the driver leaves the parameter empty", "Cannot read field \"value\" because \"typedValue\" is null",
        () -> query(connection, "select ts from typed where s = ?", (s, i) -> s.setCharacterStream(i, new StringReader("text"))),
        () -> nowhere((s, i) -> s.setCharacterStream(i, new StringReader("text"))));
    steps.known("prepared: setBinaryStream", "the driver leaves the parameter empty", "Cannot read field \"value\" because \"typedValue\" is null",
        () -> query(connection, "select ts from typed where v = ?", (s, i) -> s.setBinaryStream(i, new ByteArrayInputStream(new byte[] {1}))),
        () -> nowhere((s, i) -> s.setBinaryStream(i, new ByteArrayInputStream(new byte[] {1}))));
  }

  private static List<Object> query(Connection connection, String sql, Set set) throws Exception {
    try (PreparedStatement statement = connection.prepareStatement(sql)) {
      set.on(statement, 1);
      return Target.column(statement.executeQuery(), 1);
    }
  }

  /** The fault of a setter at the other server, once no type of a parameter takes it there. */
  private static void nowhere(Set set) throws Exception {
    Connection other = Target.other().open();
    Exception fault = null;
    List<String> taken = new ArrayList<>();
    try {
      for (String type : PARAMETERS) {
        try {
          query(other, "select ? /* parameters: " + type + " */", set);
          taken.add(type);
        } catch (SQLException | UnsupportedOperationException e) {
          fault = e;
        }
      }
    } finally {
      try {
        other.close();
      } catch (SQLException e) {
        // As above, for the refused values.
      }
    }
    that(taken.isEmpty(), "no type takes it, but " + taken);
    throw fault;
  }
}
