package clients;

import static clients.Steps.equal;
import static clients.Steps.refused;
import static clients.Steps.that;

import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.Date;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.Statement;
import java.sql.Time;
import java.sql.Timestamp;
import java.time.LocalDateTime;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/** Values of every type, through every getter that suits them. */
final class Types {
  private static final long TIME = 1_563_249_700_000L;

  interface Look {
    void at(ResultSet row) throws Exception;
  }

  private final Target target;
  private final Steps steps;
  private Connection connection;

  Types(Target target, Steps steps) {
    this.target = target;
    this.steps = steps;
  }

  /** A query of one row. */
  private void row(String sql, Look look) throws Exception {
    try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery(sql)) {
      that(rows.next(), "there is a row");
      look.at(rows);
      that(!rows.next(), "there is one row alone");
    }
  }

  void run() throws Exception {
    try (Connection opened = target.open("jdbc")) {
      connection = opened;
      Target.update(connection, "create table every (ts timestamp, b bool, i8 tinyint, i16 smallint, i32 int, i64 bigint, u8 tinyint unsigned, "
          + "u16 smallint unsigned, u32 int unsigned, u64 bigint unsigned, f float, x double, s varchar(60000), n nchar(200), v varbinary(200))");
      stored();
      computed();
    }
  }

  private void stored() {
    steps.step("types: an ordinary row of every column type", () -> {
      equal(1L, Target.update(connection, "insert into every values (" + TIME + ", true, -8, -16, -32, -64, 8, 16, 32, 64, 1.5, 2.25, 'text', "
          + "'náme 名', '\\x00ff7a')"));
      row("select * from every where ts = " + TIME, r -> {
        equal(new Timestamp(TIME), r.getTimestamp("ts"));
        equal("2019-07-16 04:01:40.0", r.getString("ts"));
        equal(LocalDateTime.parse("2019-07-16T04:01:40"), r.getObject("ts", LocalDateTime.class));
        equal(new Timestamp(TIME), r.getObject("ts"));
        equal("2019-07-16", r.getDate("ts").toString());
        equal("04:01:40", r.getTime("ts").toString());
        equal(true, r.getBoolean("b"));
        equal(true, r.getObject("b"));
        equal("true", r.getString("b"));
        equal((byte) -8, r.getByte("i8"));
        equal((byte) -8, r.getObject("i8"));
        equal((short) -16, r.getShort("i16"));
        equal((short) -16, r.getObject("i16"));
        equal(-32, r.getInt("i32"));
        equal(-32, r.getObject("i32"));
        equal("-32", r.getString("i32"));
        equal(-64L, r.getLong("i64"));
        equal(-64L, r.getObject("i64"));
        equal(new BigDecimal("-64"), r.getBigDecimal("i64"));
        equal(-64.0, r.getDouble("i64"));
        equal((short) 8, r.getObject("u8"));
        equal(16, r.getObject("u16"));
        equal(32L, r.getObject("u32"));
        equal(64L, r.getObject("u64"));
        equal(1.5f, r.getFloat("f"));
        equal(1.5f, r.getObject("f"));
        equal(1.5, r.getDouble("f"));
        equal(2.25, r.getDouble("x"));
        equal(2.25, r.getObject("x"));
        equal("2.25", r.getString("x"));
        equal("text", r.getString("s"));
        equal("text", r.getObject("s"));
        equal("text", new String(r.getBytes("s"), StandardCharsets.UTF_8));
        equal("náme 名", r.getString("n"));
        equal(new byte[] {0, -1, 0x7a}, r.getBytes("v"));
        equal(new byte[] {0, -1, 0x7a}, r.getObject("v"));
      });
    });
    steps.step("types: a row of nulls", () -> {
      equal(1L, Target.update(connection, "insert into every (ts, i32) values (" + (TIME + 1) + ", null)"));
      row("select * from every where ts = " + (TIME + 1), r -> {
        for (int i = 2; i <= 15; i++) {
          equal(null, r.getObject(i), "column " + i);
          that(r.wasNull(), "column " + i + " was null");
          equal(null, r.getString(i), "text of column " + i);
        }
        equal(0, r.getInt("i32"));
        that(r.wasNull(), "0 was null");
        equal(false, r.getBoolean("b"));
        that(r.wasNull(), "false was null");
        equal(new Timestamp(TIME + 1), r.getTimestamp("ts"));
        that(!r.wasNull(), "the time was not null");
      });
    });
    steps.step("types: the smallest values", () -> {
      Target.update(connection, "insert into every values (" + (TIME + 2) + ", false, -127, -32767, -2147483647, -9223372036854775807, 0, 0, 0, 0, "
          + "-3.4028235e38, -1.7976931348623157e308, '', '', '\\x')");
      row("select * from every where ts = " + (TIME + 2), r -> {
        equal((byte) -127, r.getByte("i8"));
        equal((short) -32767, r.getShort("i16"));
        equal(-2147483647, r.getInt("i32"));
        equal(-9223372036854775807L, r.getLong("i64"));
        equal(0L, r.getLong("u64"));
        equal(-Float.MAX_VALUE, r.getFloat("f"));
        equal(-Double.MAX_VALUE, r.getDouble("x"));
        equal("", r.getString("s"));
        that(!r.wasNull(), "an empty text is no null");
        equal("", r.getString("n"));
        equal(new byte[0], r.getBytes("v"));
      });
    });
    steps.step("types: the largest values", () -> {
      Target.update(connection, "insert into every values (" + (TIME + 3) + ", true, 127, 32767, 2147483647, 9223372036854775807, 255, 65535, "
          + "4294967295, 9223372036854775807, 3.4028235e38, 1.7976931348623157e308, 'x', 'y', '\\x01')");
      row("select * from every where ts = " + (TIME + 3), r -> {
        equal(Byte.MAX_VALUE, r.getByte("i8"));
        equal(Short.MAX_VALUE, r.getShort("i16"));
        equal(Integer.MAX_VALUE, r.getInt("i32"));
        equal(Long.MAX_VALUE, r.getLong("i64"));
        equal((short) 255, r.getShort("u8"));
        equal(65535, r.getInt("u16"));
        equal(4294967295L, r.getLong("u32"));
        equal(Long.MAX_VALUE, r.getLong("u64"));
        equal(Float.MAX_VALUE, r.getFloat("f"));
        equal(Double.MAX_VALUE, r.getDouble("x"));
      });
    });
    steps.step("types: an unsigned value beyond BIGINT is refused with the way out", () -> {
      Target.update(connection, "insert into every (ts, u64) values (" + (TIME + 4) + ", 18446744073709551615)");
      refused("cast", () -> row("select u64 from every where ts = " + (TIME + 4), r -> r.getLong(1)));
      row("select cast(u64 as varchar) from every where ts = " + (TIME + 4), r -> equal("18446744073709551615", r.getString(1)));
      Target.update(connection, "delete from every where ts = " + (TIME + 4));
    });
    steps.step("types: texts of 60000 bytes, quotes, line ends and other scripts", () -> {
      String text = "it's \"quoted\" \\ and\nbroken\t日本語 🌊 ";
      String longest = "ab".repeat(30_000);
      Target.update(connection, "insert into every (ts, s, n) values (" + (TIME + 5) + ", '" + longest + "', '" + text.replace("'", "''") + "')");
      row("select s, n from every where ts = " + (TIME + 5), r -> {
        equal(longest, r.getString("s"));
        equal(text, r.getString("n"));
      });
    });
    steps.step("types: getters that do not suit are refused, and the row stays readable", () -> {
      row("select s, v from every where ts = " + TIME, r -> {
        refused("", () -> r.getInt("s"));
        refused("", () -> r.getTimestamp("v"));
        equal("text", r.getString("s"));
      });
    });
    steps.step("types: times before 1970 and of each precision", () -> {
      for (String unit : List.of("ms", "us", "ns")) {
        String database = "jdbc_" + unit;
        Target.update(connection, "drop database if exists " + database);
        Target.update(connection, "create database " + database + " precision '" + unit + "' keep 36500d");
        Target.update(connection, "create table " + database + ".t (ts timestamp, other timestamp)");
        int digits = unit.equals("ms") ? 3 : unit.equals("us") ? 6 : 9;
        String fraction = "123456789".substring(0, digits);
        Target.update(connection, "insert into " + database + ".t values ('2019-07-16 04:01:40." + fraction + "', '1969-12-31 23:59:59." + fraction + "')");
        row("select ts, other from " + database + ".t", r -> {
          Timestamp first = Timestamp.valueOf("2019-07-16 04:01:40." + fraction);
          Timestamp second = Timestamp.valueOf("1969-12-31 23:59:59." + fraction);
          equal(first, r.getTimestamp(1), unit);
          equal(second, r.getTimestamp(2), unit);
          equal(first.toLocalDateTime(), r.getObject(1, LocalDateTime.class), unit);
          equal(second.toLocalDateTime(), r.getObject(2, LocalDateTime.class), unit);
        });
      }
    });
    steps.step("types: what the metadata of a result says", () -> {
      try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery("select * from every limit 1")) {
        ResultSetMetaData metadata = rows.getMetaData();
        equal(15, metadata.getColumnCount());
        int[] expected = {java.sql.Types.TIMESTAMP, java.sql.Types.BOOLEAN, java.sql.Types.TINYINT, java.sql.Types.SMALLINT, java.sql.Types.INTEGER,
            java.sql.Types.BIGINT, java.sql.Types.SMALLINT, java.sql.Types.INTEGER, java.sql.Types.BIGINT, java.sql.Types.BIGINT,
            java.sql.Types.FLOAT, java.sql.Types.DOUBLE, java.sql.Types.VARCHAR, java.sql.Types.VARCHAR, java.sql.Types.VARBINARY};
        int[] found = new int[15];
        for (int i = 1; i <= 15; i++) {
          found[i - 1] = metadata.getColumnType(i);
          that(!metadata.getColumnTypeName(i).isEmpty(), "type " + i + " has a name");
        }
        equal(Arrays.toString(expected), Arrays.toString(found));
        equal("ts", metadata.getColumnName(1));
        equal("v", metadata.getColumnLabel(15));
        equal(60000, metadata.getPrecision(13), "width of s");
        equal(200, metadata.getPrecision(14), "width of n");
      }
    });
  }

  private void computed() {
    steps.step("types: DATE and TIME", () ->
        row("select cast('2020-02-29' as date) d, cast('12:34:56' as time) t", r -> {
          equal(Date.valueOf("2020-02-29"), r.getDate("d"));
          equal(Date.valueOf("2020-02-29"), r.getObject("d"));
          equal("2020-02-29", r.getString("d"));
          equal("12:34:56", r.getTime("t").toString());
          equal(Time.class, r.getObject("t") instanceof Time ? Time.class : r.getObject("t").getClass());
        }));
    steps.step("types: DECIMAL", () ->
        row("select cast('-123456789012.25' as decimal(20, 2)) d, cast(1.5 as decimal(38, 10)) e", r -> {
          equal(new BigDecimal("-123456789012.25"), r.getBigDecimal("d"));
          equal(new BigDecimal("-123456789012.25"), r.getObject("d"));
          equal("-123456789012.25", r.getString("d"));
          equal(0, new BigDecimal("1.5").compareTo(r.getBigDecimal("e")));
        }));
    steps.step("types: lists", () ->
        row("select [1, 2, null] l, ['a', 'b'] s, [[1], [2, 3]] n", r -> {
          equal("[1, 2, null]", Arrays.toString((Object[]) r.getArray("l").getArray()));
          equal("[a, b]", Arrays.toString((Object[]) r.getArray("s").getArray()));
          that(r.getString("n").replace(" ", "").contains("[[1],[2,3]]"), "nested: " + r.getString("n"));
        }));
    steps.step("types: structs", () ->
        row("select named_struct('a', 1, 'b', 'two') st", r -> {
          Map<?, ?> struct = (Map<?, ?>) r.getObject("st");
          equal(1L, struct.get("a"));
          equal("two", struct.get("b").toString());
        }));
    steps.step("types: maps", () ->
        row("select map(['k', 'l'], [1, 2]) m", r -> {
          Map<?, ?> map = (Map<?, ?>) r.getObject("m");
          equal(2, map.size());
          equal("{\"k\":1,\"l\":2}", map.toString());
        }));
    steps.step("types: intervals", () ->
        row("select interval '1 day 2 hours' i", r -> that(r.getObject("i") != null && !r.getString("i").isEmpty(), "an interval shows")));
    steps.step("types: bytes of a literal", () ->
        row("select X'00ff' b", r -> equal(new byte[] {0, -1}, r.getBytes(1))));
    steps.step("types: a null without a type", () ->
        row("select null n, 1 one", r -> {
          equal(null, r.getObject("n"));
          equal(null, r.getString("n"));
          equal(1L, r.getObject("one"));
        }));
    steps.step("types: NaN, infinities and zeros", () ->
        row("select cast('nan' as double) a, cast('inf' as double) b, cast('-inf' as double) c, cast('-0.0' as double) d", r -> {
          that(Double.isNaN(r.getDouble("a")), "NaN");
          equal(Double.POSITIVE_INFINITY, r.getDouble("b"));
          equal(Double.NEGATIVE_INFINITY, r.getDouble("c"));
          equal(-0.0, r.getDouble("d"));
        }));
    steps.step("types: times with zones arrive as UTC", () ->
        row("select arrow_cast('2019-07-16T12:01:40', 'Timestamp(Microsecond, Some(\"+08:00\"))') z, to_timestamp_seconds(" + TIME / 1000 + ") s", r -> {
          equal(new Timestamp(TIME), r.getTimestamp("z"));
          equal(new Timestamp(TIME), r.getObject("z"));
          equal(new Timestamp(TIME), r.getTimestamp("s"));
        }));
    steps.step("types: a time beyond nanoseconds is refused with the reason", () ->
        refused("2262", () -> row("select to_timestamp_seconds(99999999999)", r -> r.getTimestamp(1))));
    steps.step("types: views, large and dictionary types of Arrow arrive plain", () ->
        row("select arrow_cast('a', 'Utf8View') v, arrow_cast('b', 'LargeUtf8') l, arrow_cast('c', 'Dictionary(Int32, Utf8)') d, "
            + "arrow_cast(7, 'UInt8') u, arrow_cast(1.5, 'Float16') h, arrow_cast(X'01', 'BinaryView') b", r -> {
          equal("a", r.getObject("v"));
          equal("b", r.getObject("l"));
          equal("c", r.getObject("d"));
          equal((short) 7, r.getObject("u"));
          equal(1.5f, r.getObject("h"));
          equal(new byte[] {1}, r.getObject("b"));
        }));
  }
}
