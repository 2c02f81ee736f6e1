package clients;

import static clients.Steps.equal;
import static clients.Steps.refused;
import static clients.Steps.that;

import java.net.ServerSocket;
import java.net.InetAddress;
import java.sql.Connection;
import java.sql.Driver;
import java.sql.DriverManager;
import java.sql.Statement;
import java.util.List;
import java.util.Properties;
import org.apache.arrow.driver.jdbc.ArrowFlightJdbcDataSource;

/** How a connection comes about, what it says of itself, and how it ends. */
final class Connections {
  private final Target target;
  private final Steps steps;

  Connections(Target target, Steps steps) {
    this.target = target;
    this.steps = steps;
  }

  void run() {
    if (target.user == null) {
      open();
    } else {
      guarded();
    }
    if (target.tls) {
      encrypted();
    } else {
      steps.step(
          "connect: encryption where the server has none is refused",
          () -> refused("", () -> use("jdbc:arrow-flight-sql://" + target.host + ":" + target.port + "?useEncryption=true" + Target.IMPATIENT)));
    }
    always();
    session();
  }

  /** Connects, asks, and closes. */
  private static void use(String url) throws Exception {
    try (Connection connection = DriverManager.getConnection(url)) {
      equal(1L, Target.one(connection, "select 1"));
    }
  }

  private void open() {
    steps.step("connect: nobody says who comes", () -> use(target.bare()));
    steps.step("connect: user and password where nobody is asked", () -> use(target.bare() + "&user=anyone&password=anything"));
    steps.step("connect: token where nobody is asked", () -> use(target.bare() + "&token=anything"));
  }

  private void guarded() {
    String bare = target.bare();
    steps.step("connect: user and password", () -> {
      try (Connection connection = DriverManager.getConnection(bare + "&user=" + target.user + "&password=" + target.password)) {
        equal(target.user, Target.one(connection, "select current_user()"));
      }
    });
    steps.step("connect: user and password beside the URL", () -> {
      try (Connection connection = DriverManager.getConnection(bare, target.user, target.password)) {
        equal(target.user, Target.one(connection, "select current_user()"));
      }
    });
    steps.step("connect: token", () -> {
      try (Connection connection = DriverManager.getConnection(bare + "&token=" + target.token)) {
        equal(target.user, Target.one(connection, "select current_user()"));
      }
    });
    steps.step("connect: token as the password", () -> {
      try (Connection connection = DriverManager.getConnection(bare + "&user=anyone&password=" + target.token)) {
        equal(target.user, Target.one(connection, "select current_user()"));
      }
    });
    steps.step("connect: wrong password is refused", () -> refused("password", () -> use(bare + "&user=" + target.user + "&password=wrong")));
    steps.step("connect: unknown user is refused", () -> refused("password", () -> use(bare + "&user=nobody&password=wrong")));
    steps.step("connect: wrong token is refused", () -> refused("token", () -> use(bare + "&token=wrong")));
    steps.step("connect: nobody is refused with the first statement", () -> refused("", () -> use(bare)));
    steps.step("rights: who may not write is told so, and reads", () -> {
      try (Connection admin = target.open()) {
        Target.update(admin, "drop database if exists jdbc_rights");
        Target.update(admin, "create database jdbc_rights");
        Target.update(admin, "create table jdbc_rights.t (ts timestamp, v int)");
        Target.update(admin, "drop user if exists jdbc_reader");
        Target.update(admin, "create user jdbc_reader password 'reads only, nothing else'");
        Target.update(admin, "grant read on jdbc_rights.* to jdbc_reader");
      }
      Properties reader = new Properties();
      reader.setProperty("user", "jdbc_reader");
      reader.setProperty("password", "reads only, nothing else");
      try (Connection connection = DriverManager.getConnection(bare, reader)) {
        equal(0L, Target.one(connection, "select count(*) from jdbc_rights.t"));
        refused("not authorized", () -> Target.update(connection, "insert into jdbc_rights.t values (1563249700000, 1)"));
        refused("not authorized", () -> Target.update(connection, "create database jdbc_other"));
      }
    });
    steps.step("rights: CREATE TOKEN gives a row with a token that works, until it is dropped", () -> {
      try (Connection admin = target.open()) {
        Target.update(admin, "drop token if exists jdbc_token");
        String token;
        try (Statement statement = admin.createStatement()) {
          that(statement.execute("create token jdbc_token"), "the statement gives rows");
          var rows = statement.getResultSet();
          that(rows.next(), "there is a row");
          equal("token", rows.getMetaData().getColumnLabel(1));
          token = rows.getString(1);
        }
        use(bare + "&token=" + token);
        Target.update(admin, "drop token jdbc_token");
        refused("", () -> use(bare + "&token=" + token));
      }
    });
  }

  private void encrypted() {
    String place = "jdbc:arrow-flight-sql://" + target.host + ":" + target.port;
    String who = target.user == null ? "" : "&user=" + target.user + "&password=" + target.password;
    steps.step("tls: the given authority", () -> use(target.url()));
    steps.step("tls: no look at the certificate", () -> use(place + "?useEncryption=true&disableCertificateVerification=true" + who));
    steps.step("tls: an unknown certificate is refused", () -> refused("", () -> use(place + "?useEncryption=true" + who + Target.IMPATIENT)));
    steps.step("tls: plain text is refused", () -> refused("", () -> use(place + "?useEncryption=false" + who + Target.IMPATIENT)));
    Target mutual = new Target("CLIENT_MUTUAL_URL");
    String certificate = "&clientCertificate=" + Target.required("CLIENT_CERTIFICATE");
    String key = "&clientKey=" + Target.required("CLIENT_KEY");
    steps.step("tls: a certificate and its key where the server wants them", () -> {
      try (Connection connection = DriverManager.getConnection(mutual.url() + certificate + key)) {
        equal(target.user, Target.one(connection, "select current_user()"));
        equal(100_000, Target.column(connection, "select value from generate_series(1, 100000)").size());
      }
    });
    // The server's reason may be lost, because it closes the connection while the client still writes.
    steps.step("tls: no certificate where the server wants one is refused", () ->
        refused("unavailable", () -> use(mutual.url() + Target.IMPATIENT)));
    steps.step("tls: a stranger's certificate where the server wants one is refused", () -> refused("unavailable", () ->
        use(mutual.url() + "&clientCertificate=" + Target.required("CLIENT_WRONG_CERTIFICATE") + "&clientKey="
            + Target.required("CLIENT_WRONG_KEY") + Target.IMPATIENT)));
  }

  private void always() {
    steps.step("connect: the driver is found by its URL", () -> {
      Driver driver = DriverManager.getDriver(target.bare());
      equal("org.apache.arrow.driver.jdbc.ArrowFlightJdbcDriver", driver.getClass().getName());
      equal(18, driver.getMajorVersion());
      that(driver.acceptsURL(target.bare()), "the driver takes its URL");
      that(!driver.acceptsURL("jdbc:other://" + target.host), "the driver leaves other URLs");
    });
    steps.step("connect: properties beside the URL", () -> {
      Properties properties = new Properties();
      properties.setProperty("useEncryption", Boolean.toString(target.tls));
      if (target.tls) {
        properties.setProperty("useSystemTrustStore", "false");
        properties.setProperty("tlsRootCerts", target.authority);
      }
      if (target.user != null) {
        properties.setProperty("user", target.user);
        properties.setProperty("password", target.password);
      }
      String place = "jdbc:arrow-flight-sql://" + target.host + ":" + target.port;
      try (Connection connection = DriverManager.getConnection(place, properties)) {
        equal(1L, Target.one(connection, "select 1"));
      }
    });
    steps.step("connect: semicolons instead of a query", () -> {
      use(target.url().replace('?', ';').replace('&', ';'));
    });
    steps.step("connect: as a data source", () -> {
      ArrowFlightJdbcDataSource source = ArrowFlightJdbcDataSource.createNewDataSource(place(target, true));
      try (Connection connection = source.getConnection()) {
        equal(1L, Target.one(connection, "select 1"));
      }
    });
    if (target.user != null) {
      steps.known("connect: as a data source, with user and password of the call",
          "the driver's data source replaces a user that it was made with, and adds none",
          "Error while executing SQL \"select 1\"", () -> userOfTheCall(target), () -> userOfTheCall(Target.other()));
    }
    steps.step("connect: nobody listens", () -> {
      int free;
      try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
        free = socket.getLocalPort();
      }
      refused("", () -> use("jdbc:arrow-flight-sql://127.0.0.1:" + free + "?useEncryption=false" + Target.IMPATIENT));
    });
    steps.step("connection: isValid, isClosed and close", () -> {
      Connection connection = target.open();
      that(connection.isValid(5), "an open connection is valid");
      that(!connection.isClosed(), "an open connection is not closed");
      connection.close();
      that(connection.isClosed(), "a closed connection is closed");
      refused("closed", connection::createStatement);
    });
    steps.step("connection: facts of a server without transactions", () -> {
      try (Connection connection = target.open()) {
        that(connection.getAutoCommit(), "every statement is a transaction of its own");
        equal(Connection.TRANSACTION_NONE, connection.getTransactionIsolation());
        equal(null, connection.getWarnings());
        connection.setAutoCommit(false);
        equal(1L, Target.one(connection, "select 1"));
        connection.commit();
        connection.rollback();
        connection.setAutoCommit(true);
        equal(1L, Target.one(connection, "select 1"));
      }
    });
    steps.step("connection: unwrap", () -> {
      try (Connection connection = target.open()) {
        var own = connection.unwrap(org.apache.arrow.driver.jdbc.ArrowFlightConnection.class);
        that(own != null, "the connection is the driver's");
      }
    });
    steps.step("connection: client info holds what the URL said", () -> {
      try (Connection connection = target.open("somewhere")) {
        equal("somewhere", connection.getClientInfo().getProperty("database"));
      }
    });
    steps.step("connection: fifty in a row", () -> {
      for (int i = 0; i < 50; i++) {
        use(target.url());
      }
    });
    steps.step("connection: several at once", () -> {
      try (Connection a = target.open(); Connection b = target.open(); Statement of_a = a.createStatement();
          Statement of_b = b.createStatement()) {
        var rows_of_a = of_a.executeQuery("select value from generate_series(1, 100) order by value");
        var rows_of_b = of_b.executeQuery("select value + 1000 from generate_series(1, 100) order by value");
        for (long i = 1; i <= 100; i++) {
          that(rows_of_a.next() && rows_of_b.next(), "both have row " + i);
          equal(i, rows_of_a.getLong(1));
          equal(i + 1000, rows_of_b.getLong(1));
        }
      }
    });
  }

  private static void userOfTheCall(Target target) throws Exception {
    try (Connection connection = ArrowFlightJdbcDataSource.createNewDataSource(place(target, true)).getConnection()) {
      that(Target.one(connection, "select 1") != null, "the user and the password are right");
    }
    ArrowFlightJdbcDataSource source = ArrowFlightJdbcDataSource.createNewDataSource(place(target, false));
    try (Connection connection = source.getConnection(target.user, target.password)) {
      Target.one(connection, "select 1");
    }
  }

  /** Where a server is, and perhaps who comes. */
  private static Properties place(Target target, boolean credentials) {
    Properties properties = new Properties();
    properties.setProperty("host", target.host);
    properties.setProperty("port", Integer.toString(target.port));
    properties.setProperty("useEncryption", Boolean.toString(target.tls));
    if (target.tls) {
      properties.setProperty("useSystemTrustStore", "false");
      properties.setProperty("tlsRootCerts", target.authority);
    }
    if (credentials && target.user != null) {
      properties.setProperty("user", target.user);
      properties.setProperty("password", target.password);
    }
    return properties;
  }

  private void session() {
    steps.step("session: database= of the URL", () -> {
      try (Connection connection = target.open()) {
        Target.update(connection, "drop database if exists jdbc_session");
        Target.update(connection, "create database jdbc_session");
        Target.update(connection, "create table jdbc_session.here (ts timestamp, v int)");
      }
      try (Connection connection = target.open("jdbc_session")) {
        equal("jdbc_session", Target.one(connection, "select database()"));
        equal(0L, Target.one(connection, "select count(*) from here"));
      }
    });
    steps.step("session: schema= of the URL", () -> {
      try (Connection connection = DriverManager.getConnection(target.url() + "&schema=jdbc_session")) {
        equal("jdbc_session", Target.one(connection, "select current_schema()"));
        equal("jdbc_session", Target.one(connection, "select current_database()"));
      }
    });
    steps.step("session: time-zone= of the URL decides where days begin", () -> {
      String sql = "select cast(window_start(timestamp '2019-07-16T04:01:40', '1d', '0a', timezone()) as varchar)";
      try (Connection utc = target.open();
          Connection shanghai = DriverManager.getConnection(target.url() + "&time-zone=Asia/Shanghai")) {
        equal("UTC", Target.one(utc, "select timezone()"));
        equal("Asia/Shanghai", Target.one(shanghai, "select timezone()"));
        equal("2019-07-16T00:00:00", Target.one(utc, sql).toString().replaceAll("[.]0+$", ""));
        equal("2019-07-15T16:00:00", Target.one(shanghai, sql).toString().replaceAll("[.]0+$", ""));
      }
    });
    steps.step("session: a wrong time zone is refused", () -> {
      try (Connection connection = DriverManager.getConnection(target.url() + "&time-zone=Nowhere/None")) {
        refused("zone", () -> Target.one(connection, "select 1"));
      }
    });
    steps.step("session: USE is kept in the cookie, for this connection alone", () -> {
      try (Connection connection = target.open(); Connection other = target.open()) {
        Target.update(connection, "use jdbc_session");
        equal(List.of("jdbc_session"), Target.column(connection, "select database()"));
        equal(0L, Target.one(connection, "select count(*) from here"));
        equal(null, Target.one(other, "select database()"));
      }
    });
    steps.step("session: catalog=tidelake is set and queries answer", () -> {
      Connection connection = DriverManager.getConnection(target.url() + "&catalog=tidelake");
      equal(1L, Target.one(connection, "select 1"));
      try {
        connection.close();
      } catch (java.sql.SQLException e) {
        // The next step tests close().
      }
    });
    steps.known("session: a connection with catalog= closes", "close() ends the channel, and the driver then sends CloseSession over it",
        "Channel shutdown invoked",
        () -> DriverManager.getConnection(target.url() + "&catalog=tidelake").close(),
        () -> DriverManager.getConnection(Target.other().url() + "&catalog=main").close());
    steps.step("session: another catalog is refused", () ->
        refused("", () -> DriverManager.getConnection(target.url() + "&catalog=nosuch")));
  }
}
