package clients;

import static clients.Steps.equal;
import static clients.Steps.refused;
import static clients.Steps.that;

import java.sql.Connection;
import java.sql.ParameterMetaData;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Timestamp;
import java.sql.Types;
import java.util.ArrayList;
import java.util.List;

/** Statements with parameters, once and in batches. */
final class Prepared {
  private static final long TIME = 1_563_249_700_000L;

  interface Set {
    void on(PreparedStatement statement) throws Exception;
  }

  private final Target target;
  private final Steps steps;
  private Connection connection;

  Prepared(Target target, Steps steps) {
    this.target = target;
    this.steps = steps;
  }

  private List<Object> rows(String sql, Set set) throws Exception {
    try (PreparedStatement statement = connection.prepareStatement(sql)) {
      set.on(statement);
      try (ResultSet rows = statement.executeQuery()) {
        return Target.column(rows, 1);
      }
    }
  }

  void run() throws Exception {
    connection = target.open("jdbc");
    try {
      Target.update(connection, "create stable bound (ts timestamp, b bool, i8 tinyint, i16 smallint, i32 int, i64 bigint, u32 int unsigned, f float, "
          + "x double, s varchar(40), n nchar(20), v varbinary(20), later timestamp) tags (devid int)");
      Target.update(connection, "create table numbers (ts timestamp, i int, x double, s varchar(20), b bool)");
      StringBuilder sql = new StringBuilder("insert into numbers values ");
      for (int i = 0; i < 100; i++) {
        sql.append(String.format("(%d, %d, %d.5, 's%d', %s) ", TIME + i, i, i, i % 10, i % 2 == 0));
      }
      Target.update(connection, sql.toString());
      queries();
      meta();
      updates();
      batches();
      faults();
    } finally {
      close();
    }
  }

  /** The driver leaks what it had made of values when it refuses one, and then complains of that. */
  private void close() {
    try {
      connection.close();
    } catch (SQLException e) {
      // The server's side is closed anyway.
    }
  }

  private void queries() {
    steps.step("prepared: without parameters", () -> equal(List.of(100L), rows("select count(*) from numbers", s -> {})));
    steps.step("prepared: setInt, setLong, setShort and setByte", () -> {
      String sql = "select i from numbers where i = ?";
      equal(List.of(42), rows(sql, s -> s.setInt(1, 42)));
      equal(List.of(42), rows(sql, s -> s.setLong(1, 42)));
      equal(List.of(42), rows(sql, s -> s.setShort(1, (short) 42)));
      equal(List.of(42), rows(sql, s -> s.setByte(1, (byte) 42)));
      equal(List.of(42), rows(sql, s -> s.setObject(1, 42)));
      equal(List.of(42), rows(sql, s -> s.setObject(1, 42L)));
      equal(List.of(), rows(sql, s -> s.setLong(1, 420)));
    });
    steps.step("prepared: setDouble and setFloat", () -> {
      String sql = "select i from numbers where x = ?";
      equal(List.of(7), rows(sql, s -> s.setDouble(1, 7.5)));
      equal(List.of(7), rows(sql, s -> s.setFloat(1, 7.5f)));
      equal(List.of(7), rows(sql, s -> s.setObject(1, 7.5)));
    });
    steps.step("prepared: setString", () -> {
      equal(10, rows("select i from numbers where s = ?", s -> s.setString(1, "s3")).size());
      equal(List.of(), rows("select i from numbers where s = ?", s -> s.setString(1, "' or 1 = 1 --")));
      equal(20, rows("select i from numbers where s in (?, ?)", s -> {
        s.setString(1, "s3");
        s.setString(2, "s4");
      }).size());
      equal(100, rows("select i from numbers where s like ?", s -> s.setString(1, "s%")).size());
    });
    steps.step("prepared: setBoolean", () -> equal(50, rows("select i from numbers where b = ?", s -> s.setBoolean(1, true)).size()));
    steps.step("prepared: setTimestamp", () -> {
      equal(List.of(5), rows("select i from numbers where ts = ?", s -> s.setTimestamp(1, new Timestamp(TIME + 5))));
      equal(List.of(2, 3), rows("select i from numbers where ts >= ? and ts < ? order by ts", s -> {
        s.setTimestamp(1, new Timestamp(TIME + 2));
        s.setTimestamp(2, new Timestamp(TIME + 4));
      }));
      equal(List.of(2, 3, 4), rows("select i from numbers where ts between ? and ? order by ts", s -> {
        s.setTimestamp(1, new Timestamp(TIME + 2));
        s.setTimestamp(2, new Timestamp(TIME + 4));
      }));
    });
    steps.step("prepared: setNull", () -> {
      equal(List.of(), rows("select i from numbers where i = ?", s -> s.setNull(1, Types.INTEGER)));
      equal(List.of(), rows("select i from numbers where s = ?", s -> s.setNull(1, Types.VARCHAR)));
      equal(List.of(), rows("select i from numbers where s = ?", s -> s.setString(1, null)));
      equal(List.of(), rows("select i from numbers where ts = ?", s -> s.setNull(1, Types.TIMESTAMP)));
    });
    steps.step("prepared: a parameter without a type is a text", () -> {
      equal(List.of("x"), rows("select ?", s -> s.setString(1, "x")));
      equal(List.of("a-b"), rows("select ? || '-' || ?", s -> {
        s.setString(1, "a");
        s.setString(2, "b");
      }));
      equal(List.of(7L), rows("select cast(? as bigint)", s -> s.setString(1, "7")));
    });
    steps.step("prepared: LIMIT ? and OFFSET ?", () -> {
      equal(List.of(3, 4), rows("select i from numbers order by i limit ? offset ?", s -> {
        s.setInt(1, 2);
        s.setInt(2, 3);
      }));
      equal(List.of(3, 4), rows("select i from numbers order by i limit ?, ?", s -> {
        s.setLong(1, 3);
        s.setLong(2, 2);
      }));
    });
    steps.step("prepared: parameters beside arithmetic, in HAVING and in a subquery", () -> {
      equal(List.of(10), rows("select i from numbers where i + ? = 13", s -> s.setInt(1, 3)));
      equal(List.of(), rows("select s from numbers group by s having count(*) > ?", s -> s.setInt(1, 10)));
      equal(1, rows("select count(*) from (select i from numbers where i < ?) where i > ?", s -> {
        s.setInt(1, 10);
        s.setInt(2, 5);
      }).size());
    });
    steps.step("prepared: question marks in quotes and comments are none", () -> {
      equal(List.of("?"), rows("select '?' from numbers where i = ? -- ?", s -> s.setInt(1, 1)));
      equal(List.of(1L), rows("select 1 as \"?\" /* ? */", s -> {}));
    });
    steps.step("prepared: the same statement again, with other values", () -> {
      try (PreparedStatement statement = connection.prepareStatement("select i from numbers where i = ? and s = ?")) {
        for (int i = 0; i < 100; i++) {
          statement.setInt(1, i);
          statement.setString(2, "s" + i % 10);
          try (ResultSet rows = statement.executeQuery()) {
            equal(List.of(i), Target.column(rows, 1));
          }
        }
      }
    });
    steps.step("prepared: several are open at once", () -> {
      List<PreparedStatement> open = new ArrayList<>();
      for (int i = 0; i < 20; i++) {
        PreparedStatement statement = connection.prepareStatement("select " + i + " + i from numbers where i = ?");
        statement.setInt(1, i);
        open.add(statement);
      }
      for (int i = 19; i >= 0; i--) {
        equal(List.of(2L * i), Target.column(open.get(i).executeQuery(), 1));
        open.get(i).close();
      }
    });
    steps.step("prepared: sees what was written and altered since", () -> {
      Target.update(connection, "create table since (ts timestamp, v int)");
      try (PreparedStatement statement = connection.prepareStatement("select count(*) from since where v = ?")) {
        statement.setInt(1, 1);
        equal(List.of(0L), Target.column(statement.executeQuery(), 1));
        Target.update(connection, "insert into since values (" + TIME + ", 1)");
        statement.setInt(1, 1);
        equal(List.of(1L), Target.column(statement.executeQuery(), 1));
        Target.update(connection, "alter stable since add column w int");
        Target.update(connection, "insert into since values (" + (TIME + 1) + ", 1, 1)");
        statement.setInt(1, 1);
        equal(List.of(2L), Target.column(statement.executeQuery(), 1));
      }
    });
  }

  private void meta() {
    steps.step("prepared: types of parameters are told", () -> {
      try (PreparedStatement statement = connection.prepareStatement(
          "select * from numbers where i = ? and x = ? and s = ? and b = ? and ts = ? limit ?")) {
        ParameterMetaData parameters = statement.getParameterMetaData();
        equal(6, parameters.getParameterCount());
        int[] expected = {Types.BIGINT, Types.DOUBLE, Types.VARCHAR, Types.BOOLEAN, Types.TIMESTAMP, Types.BIGINT};
        for (int i = 0; i < 6; i++) {
          equal(expected[i], parameters.getParameterType(i + 1), "parameter " + (i + 1));
        }
      }
    });
    steps.step("prepared: columns are told before it runs", () -> {
      try (PreparedStatement statement = connection.prepareStatement("select i, s as text from numbers where i = ?")) {
        equal(2, statement.getMetaData().getColumnCount());
        equal("text", statement.getMetaData().getColumnLabel(2));
        equal(Types.INTEGER, statement.getMetaData().getColumnType(1));
      }
    });
  }

  private void updates() {
    String sql = "insert into bound (tbname, ts, b, i8, i16, i32, i64, u32, f, x, s, n, v, later, devid) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    steps.step("prepared: INSERT with every type", () -> {
      try (PreparedStatement statement = connection.prepareStatement(sql)) {
        statement.setString(1, "one");
        statement.setTimestamp(2, new Timestamp(TIME));
        statement.setBoolean(3, true);
        statement.setByte(4, (byte) -8);
        statement.setShort(5, (short) -16);
        statement.setInt(6, -32);
        statement.setLong(7, Long.MAX_VALUE);
        statement.setLong(8, 4294967295L);
        statement.setFloat(9, 1.5f);
        statement.setDouble(10, 0.1);
        statement.setString(11, "it's");
        statement.setString(12, "名");
        statement.setBytes(13, new byte[] {0, -1});
        statement.setTimestamp(14, new Timestamp(TIME + 77));
        statement.setInt(15, 1);
        equal(1, statement.executeUpdate());
      }
      try (var statement = connection.createStatement(); ResultSet r = statement.executeQuery("select * from bound where devid = 1")) {
        that(r.next(), "the row");
        equal(new Timestamp(TIME), r.getTimestamp("ts"));
        equal(true, r.getBoolean("b"));
        equal((byte) -8, r.getByte("i8"));
        equal((short) -16, r.getShort("i16"));
        equal(-32, r.getInt("i32"));
        equal(Long.MAX_VALUE, r.getLong("i64"));
        equal(4294967295L, r.getLong("u32"));
        equal(1.5f, r.getFloat("f"));
        equal(0.1, r.getDouble("x"));
        equal("it's", r.getString("s"));
        equal("名", r.getString("n"));
        equal(new byte[] {0, -1}, r.getBytes("v"));
        equal(new Timestamp(TIME + 77), r.getTimestamp("later"));
        equal(1, r.getInt("devid"));
        that(!r.next(), "one row");
      }
    });
    steps.step("prepared: INSERT of a text that looks like an escape", () -> {
      for (String text : List.of("back\\slash 'quote'", "C:\\new", "\\")) {
        try (PreparedStatement statement = connection.prepareStatement("insert into numbers (ts, i, s) values (?, ?, ?)")) {
          statement.setTimestamp(1, new Timestamp(TIME + 500));
          statement.setInt(2, 500);
          statement.setString(3, text);
          equal(1, statement.executeUpdate());
        }
        equal(List.of(text), rows("select s from numbers where i = ?", s -> s.setInt(1, 500)));
        Target.update(connection, "delete from numbers where ts = " + (TIME + 500));
      }
    });
    steps.step("prepared: INSERT of nulls", () -> {
      try (PreparedStatement statement = connection.prepareStatement(sql)) {
        statement.setString(1, "nothing");
        statement.setTimestamp(2, new Timestamp(TIME));
        int[] types = {Types.BOOLEAN, Types.TINYINT, Types.SMALLINT, Types.INTEGER, Types.BIGINT, Types.BIGINT, Types.REAL, Types.DOUBLE,
            Types.VARCHAR, Types.VARCHAR, Types.VARBINARY, Types.TIMESTAMP};
        for (int i = 0; i < types.length; i++) {
          statement.setNull(i + 3, types[i]);
        }
        statement.setInt(15, 2);
        equal(1, statement.executeUpdate());
      }
      equal(List.of(1L), rows("select count(*) from bound where devid = ? and b is null and i8 is null and i64 is null and f is null and x is null "
          + "and s is null and n is null and v is null and later is null", s -> s.setInt(1, 2)));
    });
    steps.step("prepared: execute() of INSERT, again and again", () -> {
      try (PreparedStatement statement = connection.prepareStatement("insert into numbers (ts, i) values (?, ?)")) {
        for (int i = 0; i < 10; i++) {
          statement.setTimestamp(1, new Timestamp(TIME + 1000 + i));
          statement.setInt(2, 1000 + i);
          // The driver treats every prepared statement executed this way as a query: its result is the count.
          statement.execute();
        }
      }
      equal(10, rows("select i from numbers where i >= ?", s -> s.setInt(1, 1000)).size());
    });
    steps.step("prepared: DELETE with parameters counts its rows", () -> {
      try (PreparedStatement statement = connection.prepareStatement("delete from numbers where ts >= ?")) {
        statement.setTimestamp(1, new Timestamp(TIME + 1000));
        equal(10, statement.executeUpdate());
      }
      equal(100L, Target.one(connection, "select count(*) from numbers"));
    });
  }

  private void batches() {
    steps.step("batch: three thousand rows of INSERT", () -> {
      try (PreparedStatement statement = connection.prepareStatement("insert into bound (tbname, ts, i32, s, devid) values (?, ?, ?, ?, ?)")) {
        for (int i = 0; i < 3000; i++) {
          statement.setString(1, "batch" + i % 3);
          statement.setTimestamp(2, new Timestamp(TIME + i));
          statement.setInt(3, i);
          statement.setString(4, "row " + i);
          statement.setInt(5, 100 + i % 3);
          statement.addBatch();
        }
        int total = 0;
        for (int count : statement.executeBatch()) {
          total += count;
        }
        equal(3000, total);
      }
      equal(3000L * 2999 / 2, Target.one(connection, "select sum(i32) from bound where devid >= 100"));
      equal(1000L, Target.one(connection, "select count(*) from bound where tbname = 'batch1'"));
    });
    steps.step("batch: a second one with the same statement", () -> {
      try (PreparedStatement statement = connection.prepareStatement("insert into bound (tbname, ts, i32, devid) values ('again', ?, ?, 200)")) {
        for (int round = 0; round < 2; round++) {
          for (int i = 0; i < 10; i++) {
            statement.setTimestamp(1, new Timestamp(TIME + round * 100 + i));
            statement.setInt(2, i);
            statement.addBatch();
          }
          statement.executeBatch();
        }
      }
      equal(20L, Target.one(connection, "select count(*) from bound where devid = 200"));
    });
    steps.step("batch: an unsuitable value refuses the whole batch", () -> {
      try (PreparedStatement statement = connection.prepareStatement("insert into bound (tbname, ts, s, devid) values ('whole', ?, ?, 300)")) {
        for (int i = 0; i < 10; i++) {
          statement.setTimestamp(1, new Timestamp(TIME + i));
          statement.setString(2, "x".repeat(i == 9 ? 41 : 40));
          statement.addBatch();
        }
        refused("", statement::executeBatch);
      }
      equal(0L, Target.one(connection, "select count(*) from bound where devid = 300"));
    });
  }

  private void faults() {
    steps.step("prepared: errors come with prepare", () -> {
      refused("nosuch", () -> connection.prepareStatement("select * from nosuch where a = ?"));
      refused("syntax error", () -> connection.prepareStatement("selekt ?"));
    });
    steps.step("prepared: a parameter too many is refused by the driver", () -> {
      try (PreparedStatement statement = connection.prepareStatement("select i from numbers where i = ?")) {
        refused("", () -> statement.setInt(2, 1));
        statement.setInt(1, 1);
        equal(List.of(1), Target.column(statement.executeQuery(), 1));
      }
    });
    steps.step("prepared: a missing parameter is refused", () -> {
      try (PreparedStatement statement = connection.prepareStatement("select i from numbers where i = ? and x = ?")) {
        statement.setInt(1, 1);
        refused("", statement::executeQuery);
      }
    });
    steps.step("prepared: a text where a number belongs is refused", () -> {
      try (PreparedStatement statement = connection.prepareStatement("select i from numbers where i = ?")) {
        refused("", () -> {
          statement.setString(1, "not a number");
          statement.executeQuery();
        });
      }
      equal(1L, Target.one(connection, "select 1"));
    });
    steps.step("prepared: goes on after an error", () -> {
      try (PreparedStatement statement = connection.prepareStatement("select 10 / i from numbers where i = ?")) {
        statement.setInt(1, 0);
        refused("zero", () -> Target.column(statement.executeQuery(), 1));
        statement.setInt(1, 5);
        equal(List.of(2L), Target.column(statement.executeQuery(), 1));
      }
    });
    steps.step("prepared: a closed one is refused", () -> {
      PreparedStatement statement = connection.prepareStatement("select 1");
      statement.close();
      refused("closed", statement::executeQuery);
    });
  }
}
