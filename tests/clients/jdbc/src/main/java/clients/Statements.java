package clients;

import static clients.Steps.equal;
import static clients.Steps.refused;
import static clients.Steps.that;

import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Timestamp;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

/** Statements without parameters: what they give, how they fail, how they stop. */
final class Statements {
  private static final long TIME = 1_563_249_700_000L;
  /** Runs for minutes, and sends its first rows at once. */
  private static final String ENDLESS = "select a.value, b.value from generate_series(1, 1000000) a cross join generate_series(1, 1000000) b";
  /** Runs for minutes before its first row. */
  private static final String SILENT =
      "select count(*) from generate_series(1, 3000000) a cross join generate_series(1, 3000000) b where (a.value * b.value) % 7 = 3";

  private final Target target;
  private final Steps steps;
  private Connection connection;

  Statements(Target target, Steps steps) {
    this.target = target;
    this.steps = steps;
  }

  void run() throws Exception {
    try (Connection opened = target.open("jdbc")) {
      connection = opened;
      writes();
      answers();
      results();
      errors();
      limits();
      stopping();
    }
  }

  private void writes() {
    steps.step("statement: DDL is an update of no rows", () -> {
      try (Statement statement = connection.createStatement()) {
        that(!statement.execute("create stable devices (ts timestamp, temperature float, humidity double) tags (devid int, devgroup varchar(10))"),
            "DDL gives no rows");
        equal(0, statement.getUpdateCount());
        equal(null, statement.getResultSet());
      }
    });
    steps.step("statement: INSERT counts its rows", () -> {
      try (Statement statement = connection.createStatement()) {
        StringBuilder sql = new StringBuilder("insert into devices (tbname, ts, temperature, humidity, devid, devgroup) values ");
        // 10 devices of 2 groups, a row every 10 s for 400 s; temperature = devid + row / 100, humidity = row
        for (int device = 0; device < 10; device++) {
          for (int row = 0; row < 40; row++) {
            sql.append(String.format("('dev%d', %d, %d.%02d, %d, %d, 'g%d') ", device, TIME + row * 10_000L, device, row, row, device, device % 2));
          }
        }
        equal(400, statement.executeUpdate(sql.toString()));
        equal(400, statement.getUpdateCount());
        equal(1L, statement.executeLargeUpdate("insert into dev3 values (" + (TIME + 400_000) + ", 1, 1)"));
        that(!statement.execute("insert into dev3 values (" + (TIME + 410_000) + ", 1, 1)"), "INSERT gives no rows");
        equal(1, statement.getUpdateCount());
      }
    });
    steps.step("statement: a write is seen by the next query", () -> {
      for (int i = 0; i < 20; i++) {
        Target.update(connection, "insert into fresh using devices tags (100, 'fresh') values (" + (TIME + i) + ", 1, 1)");
        equal(i + 1L, Target.one(connection, "select count(*) from fresh"));
      }
      equal(20L, Target.update(connection, "delete from devices where devgroup = 'fresh'"));
      Target.update(connection, "drop table fresh");
    });
    steps.step("statement: DELETE counts its rows", () -> {
      equal(2L, Target.update(connection, "delete from devices where tbname = 'dev3' and ts >= " + (TIME + 400_000)));
      equal(400L, Target.one(connection, "select count(*) from devices"));
      equal(0L, Target.update(connection, "delete from devices where devid = 77"));
    });
    steps.step("statement: ALTER and DROP", () -> {
      Target.update(connection, "create table altered (ts timestamp, v int)");
      Target.update(connection, "insert into altered values (" + TIME + ", 1)");
      equal(0L, Target.update(connection, "alter stable altered add column w varchar(8)"));
      Target.update(connection, "insert into altered values (" + (TIME + 1) + ", 2, 'two')");
      List<Object> expected = new ArrayList<>();
      expected.add(null);
      expected.add("two");
      equal(expected, Target.column(connection, "select w from altered order by ts"));
      equal(0L, Target.update(connection, "drop table altered"));
      refused("altered", () -> Target.one(connection, "select count(*) from altered"));
    });
    steps.step("statement: the same time overwrites", () -> {
      Target.update(connection, "create table over (ts timestamp, v int)");
      Target.update(connection, "insert into over values (" + TIME + ", 1)");
      Target.update(connection, "insert into over values (" + TIME + ", 2)");
      equal(List.of(2), Target.column(connection, "select v from over"));
    });
  }

  private void answers() {
    steps.step("query: filter by tags and time", () -> {
      equal(20L, Target.one(connection, "select count(*) from devices where devid = 4 and ts < " + (TIME + 200_000)));
      equal(200L, Target.one(connection, "select count(*) from devices where devgroup = 'g1'"));
    });
    steps.step("query: aggregates by group", () -> {
      try (Statement statement = connection.createStatement();
          ResultSet rows = statement.executeQuery("select devgroup, count(*) c, min(devid) a, max(devid) b, sum(humidity) s, avg(humidity) m, "
              + "spread(humidity) d from devices group by devgroup order by devgroup")) {
        for (int group = 0; group < 2; group++) {
          that(rows.next(), "a row for g" + group);
          equal("g" + group, rows.getString("devgroup"));
          equal(200L, rows.getLong("c"));
          equal(group, rows.getInt("a"));
          equal(8 + group, rows.getInt("b"));
          // 5 devices, 0 + 1 + … + 39 each
          equal(3900.0, rows.getDouble("s"));
          equal(19.5, rows.getDouble("m"));
          equal(39.0, rows.getDouble("d"));
        }
        that(!rows.next(), "two groups");
      }
    });
    steps.step("query: windows of a minute", () -> {
      try (Statement statement = connection.createStatement();
          ResultSet rows = statement.executeQuery("select _wstart, count(*) c from devices interval(1m)")) {
        // rows begin 40 s into a minute: 2 instants, then 6 a minute
        int[] instants = {2, 6, 6, 6, 6, 6, 6, 2};
        for (int i = 0; i < instants.length; i++) {
          that(rows.next(), "window " + i);
          equal(new Timestamp(TIME - 40_000 + i * 60_000L), rows.getTimestamp(1));
          equal(instants[i] * 10L, rows.getLong("c"));
        }
        that(!rows.next(), "eight windows");
      }
    });
    steps.step("query: a subquery, a join, UNION ALL, CTE and window functions", () -> {
      equal(List.of(3L, 3L), Target.column(connection, "with x as (select devid from devices where devid < 3 group by devid) "
          + "select count(*) from x union all select count(*) from x a join x b on a.devid = b.devid"));
      equal(List.of(1L, 2L, 3L), Target.column(connection, "select row_number() over (order by value desc) from generate_series(5, 7) order by 1"));
      equal(10L, Target.one(connection, "select count(*) from (select distinct devid from devices)"));
    });
    steps.step("query: SHOW, DESCRIBE and EXPLAIN give rows", () -> {
      that(Target.column(connection, "show databases").contains("jdbc"), "the database is listed");
      that(Target.column(connection, "show tables").contains("dev3"), "a series is listed");
      equal(List.of("ts", "temperature", "humidity", "devid", "devgroup"), Target.column(connection, "describe devices"));
      that(Target.column(connection, "explain select count(*) from devices").size() == 2, "two plans");
    });
    steps.step("query: information_schema as tools ask it", () -> {
      equal(List.of("devices", "every", "over"), Target.column(connection,
          "SELECT table_name FROM information_schema.tables WHERE table_schema = 'jdbc' ORDER BY table_name"));
      equal(List.of("devices", "every", "over"), Target.column(connection,
          "SELECT table_name FROM information_schema.tables WHERE table_schema = database() ORDER BY table_name"));
      equal(List.of("devgroup", "devid"), Target.column(connection, "SELECT column_name, data_type FROM information_schema.columns "
          + "WHERE table_schema = 'jdbc' AND table_name = 'devices' AND column_name like 'dev%' ORDER BY column_name"));
    });
    steps.step("query: comments and a final semicolon", () ->
        equal(1L, Target.one(connection, "-- first\nselect /* second */ 1; -- third")));
  }

  private void results() {
    steps.step("result: labels, places and repeated names", () -> {
      try (Statement statement = connection.createStatement();
          ResultSet rows = statement.executeQuery("select 1 as a, 2 as b, 3 as a, 4 as \"Upper\"")) {
        equal(4, rows.getMetaData().getColumnCount());
        equal("a", rows.getMetaData().getColumnLabel(3));
        equal(1, rows.findColumn("a"));
        equal(2, rows.findColumn("b"));
        equal(4, rows.findColumn("Upper"));
        that(rows.next(), "a row");
        equal(3L, rows.getLong(3));
        refused("", () -> rows.getLong("nosuch"));
        refused("", () -> rows.getLong(5));
      }
    });
    steps.step("result: no rows still has columns", () -> {
      try (Statement statement = connection.createStatement();
          ResultSet rows = statement.executeQuery("select ts, temperature from devices where devid = 77")) {
        equal("temperature", rows.getMetaData().getColumnLabel(2));
        equal(2, rows.findColumn("temperature"));
        that(!rows.next(), "no row");
      }
    });
    steps.known("result: no rows has its columns once",
        "the driver adds the columns of the prepared statement to themselves and clears them only with the first row",
        "expected 2 (Integer), found 4 (Integer)",
        () -> columnsOfNothing(connection, "select ts, temperature from devices where devid = 77"),
        () -> {
          try (Connection other = Target.other().open()) {
            columnsOfNothing(other, "select id, keyName from intTable where id = 77");
          }
        });
    steps.step("result: one at a time, no more of them, and no keys", () -> {
      try (Statement statement = connection.createStatement()) {
        that(statement.execute("select 1"), "rows");
        equal(-1, statement.getUpdateCount());
        ResultSet first = statement.getResultSet();
        that(first.next(), "a row");
        that(!statement.getMoreResults(), "no more results");
        equal(-1, statement.getUpdateCount());
        ResultSet second = statement.executeQuery("select 2");
        that(first.isClosed(), "the next statement closes the result before");
        that(second.next(), "a row");
        equal(2L, second.getLong(1));
      }
    });
    steps.step("result: forward only", () -> {
      try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery("select value from generate_series(1, 3)")) {
        equal(ResultSet.TYPE_FORWARD_ONLY, rows.getType());
        equal(ResultSet.CONCUR_READ_ONLY, rows.getConcurrency());
        refused("", () -> rows.updateLong(1, 5));
      }
    });
    steps.step("result: closeOnCompletion and use after close", () -> {
      Statement statement = connection.createStatement();
      statement.closeOnCompletion();
      ResultSet rows = statement.executeQuery("select 1");
      rows.close();
      that(statement.isClosed(), "the statement closes with its result");
      refused("", () -> statement.executeQuery("select 1"));
    });
    steps.step("result: a million rows", () -> {
      try (Statement statement = connection.createStatement();
          ResultSet rows = statement.executeQuery("select value, cast(value as varchar) s from generate_series(1, 1000000)")) {
        long count = 0;
        long sum = 0;
        long characters = 0;
        while (rows.next()) {
          count++;
          sum += rows.getLong(1);
          characters += rows.getString(2).length();
        }
        equal(1_000_000L, count);
        equal(500_000_500_000L, sum);
        // digits of 1 … 1000000
        equal(9L + 180 + 2_700 + 36_000 + 450_000 + 5_400_000 + 7, characters);
      }
    });
  }

  private static void columnsOfNothing(Connection connection, String sql) throws Exception {
    try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery(sql)) {
      equal(2, rows.getMetaData().getColumnCount());
    }
  }

  private void errors() {
    steps.step("error: syntax says where", () -> {
      refused("syntax error", () -> Target.one(connection, "selekt 1"));
      refused("syntax error", () -> Target.one(connection, "select 1 +"));
    });
    steps.step("error: what is missing is named", () -> {
      refused("nosuch", () -> Target.one(connection, "select * from nosuch"));
      refused("nosuch", () -> Target.one(connection, "select nosuch from devices"));
      refused("nosuch", () -> Target.one(connection, "select nosuch(1)"));
      refused("nosuch", () -> Target.update(connection, "insert into nosuch.t values (1, 1)"));
    });
    steps.step("error: while rows are computed", () ->
        refused("", () -> Target.column(connection, "select 10 / (value - 5) from generate_series(1, 10)")));
    steps.step("error: a write that does not fit writes nothing", () -> {
      refused("", () -> Target.update(connection, "insert into over values (" + (TIME + 5) + ", 1) (" + (TIME + 6) + ", 'not a number')"));
      refused("", () -> Target.update(connection, "insert into over values (" + (TIME + 5) + ", 3000000000)"));
      equal(1L, Target.one(connection, "select count(*) from over"));
      refused("exists", () -> Target.update(connection, "create table over (ts timestamp, v int)"));
    });
    steps.step("error: nothing to run", () -> {
      refused("empty", () -> Target.one(connection, ""));
      refused("empty", () -> Target.one(connection, "   "));
      refused("empty", () -> Target.one(connection, "-- only a comment"));
    });
    steps.step("error: several statements in one text", () -> refused("several", () -> Target.one(connection, "select 1; select 2")));
    steps.step("error: transactions are refused", () -> {
      refused("begin", () -> Target.update(connection, "begin"));
      refused("commit", () -> Target.update(connection, "commit"));
    });
    steps.step("error: executeQuery of an update", () -> {
      refused("result set", () -> Target.one(connection, "create table if not exists over (ts timestamp, v int)"));
    });
    steps.step("error: the connection goes on", () -> equal(1L, Target.one(connection, "select 1")));
  }

  private void limits() {
    steps.step("statement: setMaxRows is kept, and the driver does not count", () -> {
      try (Statement statement = connection.createStatement()) {
        statement.setMaxRows(5);
        equal(5, statement.getMaxRows());
        int count = Target.column(statement.executeQuery("select value from generate_series(1, 100)"), 1).size();
        that(count == 5 || count == 100, "5 rows, or all as 18.3 gives them, not " + count);
      }
    });
    steps.step("statement: setFetchSize and setQueryTimeout change nothing", () -> {
      try (Statement statement = connection.createStatement()) {
        statement.setFetchSize(10);
        statement.setQueryTimeout(60);
        equal(60, statement.getQueryTimeout());
        equal(100, Target.column(statement.executeQuery("select value from generate_series(1, 100)"), 1).size());
      }
    });
    steps.known("statement: executeBatch of texts", "the driver's prepareAndExecuteBatch is not written and gives null",
        "Cannot read field \"updateCounts\"",
        () -> batch(connection, "insert into over values (" + (TIME + 11) + ", 1)", "insert into over values (" + (TIME + 12) + ", 1)"),
        () -> {
          try (Connection other = Target.other().open()) {
            batch(other, "insert into intTable (value) values (1)", "insert into intTable (value) values (2)");
          }
        });
    steps.step("statement: fifty threads share a connection", () -> {
      ExecutorService threads = Executors.newFixedThreadPool(8);
      try {
        List<Future<Object>> answers = new ArrayList<>();
        for (int i = 0; i < 50; i++) {
          long number = i;
          answers.add(threads.submit(() -> Target.one(connection, "select " + number + " + count(*) from devices")));
        }
        for (int i = 0; i < 50; i++) {
          equal(400L + i, answers.get(i).get(60, TimeUnit.SECONDS));
        }
      } finally {
        threads.shutdownNow();
      }
    });
  }

  private static void batch(Connection connection, String first, String second) throws Exception {
    try (Statement statement = connection.createStatement()) {
      statement.addBatch(first);
      statement.addBatch(second);
      equal(2, statement.executeBatch().length);
    }
  }

  /** How many queries of a text run on the server, once it is the expected number or a few seconds have passed. */
  private long running(String part, long expected) throws Exception {
    long found = -1;
    for (int i = 0; i < 100 && found != expected; i++) {
      if (i > 0) {
        Thread.sleep(100);
      }
      try (Connection other = target.open()) {
        // This query's own text contains the part, too.
        found = (Long) Target.one(other, "select count(*) from system.queries where sql like '%" + part + "%'") - 1;
      }
    }
    return found;
  }

  private void kill(String part) throws Exception {
    try (Connection other = target.open()) {
      for (Object id : Target.column(other, "select id from system.queries where sql like '%" + part + "%' and sql not like '%system%'")) {
        Target.update(other, "kill query '" + id + "'");
      }
    }
  }

  /** The same at the other server, which can say it of all queries alone. */
  private static long runningThere(Target other) throws Exception {
    long found = -1;
    for (int i = 0; i < 100 && found != 0; i++) {
      if (i > 0) {
        Thread.sleep(100);
      }
      try (Connection connection = other.open()) {
        found = ((Number) Target.one(connection, "select running()")).longValue();
      }
    }
    return found;
  }

  private static void closedInTheMiddle(Connection connection, String endless) throws Exception {
    ResultSet rows = connection.createStatement().executeQuery(endless);
    that(rows.next(), "a row");
    try {
      connection.close();
    } catch (SQLException e) {
      // The driver may still hold memory; only the server's side is checked.
    }
  }

  private void stopping() {
    steps.step("stop: cancel from another thread, before the first row", () -> {
      try (Connection own = target.open(); Statement statement = own.createStatement()) {
        CountDownLatch begun = new CountDownLatch(1);
        ExecutorService thread = Executors.newSingleThreadExecutor();
        Future<Object> answer = thread.submit(() -> {
          begun.countDown();
          try (ResultSet rows = statement.executeQuery(SILENT)) {
            while (rows.next()) {
              rows.getLong(1);
            }
            return null;
          } catch (SQLException e) {
            return e;
          }
        });
        begun.await();
        equal(1L, running("% 7 = 3", 1), "queries that run");
        // The driver forgets a cancel() that comes before it has opened the stream of the answer, which the server does not see.
        for (int i = 0; i < 200 && !answer.isDone(); i++) {
          statement.cancel();
          Thread.sleep(100);
        }
        that(answer.get(1, TimeUnit.SECONDS) instanceof SQLException, "the query ends with an error");
        equal(0L, running("% 7 = 3", 0), "queries that still run");
        thread.shutdownNow();
      }
    });
    steps.step("stop: a result closed in the middle", () -> {
      try (Connection own = target.open(); Statement statement = own.createStatement()) {
        ResultSet rows = statement.executeQuery(ENDLESS);
        for (int i = 0; i < 1000; i++) {
          that(rows.next(), "row " + i);
        }
        equal(1L, running("1000000) b", 1), "queries that run");
        rows.close();
        equal(0L, running("1000000) b", 0), "queries that still run");
        equal(1L, Target.one(own, "select 1"));
      }
    });
    steps.known("stop: a connection closed in the middle",
        "close() waits five seconds for the end of open calls and then leaves them open, so the server sees nothing",
        "queries that still run: expected 0 (Long), found 1 (Long)",
        () -> {
          closedInTheMiddle(target.open(), ENDLESS);
          long left = running("1000000) b", 0);
          kill("1000000) b");
          equal(0L, left, "queries that still run");
        },
        () -> {
          Target other = Target.other();
          String endless = "with recursive n (v) as (select 1 union all select v + 1 from n) select v from n";
          try (Connection own = other.open(); Statement statement = own.createStatement(); ResultSet rows = statement.executeQuery(endless)) {
            that(rows.next(), "a row");
          }
          equal(0L, runningThere(other), "queries after their results were closed");
          closedInTheMiddle(other.open(), endless);
          equal(0L, runningThere(other), "queries that still run");
        });
    steps.step("stop: KILL QUERY reaches the client", () -> {
      try (Connection own = target.open(); Statement statement = own.createStatement()) {
        ExecutorService thread = Executors.newSingleThreadExecutor();
        Future<Object> answer = thread.submit(() -> {
          try (ResultSet rows = statement.executeQuery(SILENT)) {
            rows.next();
            return null;
          } catch (SQLException e) {
            return e;
          }
        });
        equal(1L, running("% 7 = 3", 1), "queries that run");
        kill("% 7 = 3");
        Object end = answer.get(20, TimeUnit.SECONDS);
        that(end instanceof SQLException, "the query ends with an error");
        equal(1L, Target.one(own, "select 1"));
        thread.shutdownNow();
      }
    });
  }
}
