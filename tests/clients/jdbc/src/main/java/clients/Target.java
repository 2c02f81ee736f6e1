package clients;

import java.net.URI;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;

/** A server, and what it wants to see of who comes. */
final class Target {
  /** The driver waits this long in vain for a certificate that it trusts. */
  static final String IMPATIENT = "&connectTimeoutMs=5000";

  final String host;
  final int port;
  final boolean tls;
  final String user;
  final String password;
  final String token;
  final String authority;

  Target() {
    this("CLIENT_URL");
  }

  /** The server that a variable of the environment names. */
  Target(String variable) {
    URI url = URI.create(required(variable));
    host = url.getHost();
    port = url.getPort();
    tls = url.getScheme().equals("https");
    user = System.getenv("CLIENT_USER");
    password = System.getenv("CLIENT_PASSWORD");
    token = System.getenv("CLIENT_TOKEN");
    authority = System.getenv("CLIENT_CA");
  }

  static String required(String name) {
    String value = System.getenv(name);
    if (value == null) {
      throw new IllegalArgumentException(name + " is not set");
    }
    return value;
  }

  /** Another server than the tested one: what fails there, too, is the driver's. */
  static Target other() {
    return new Target("CLIENT_REFERENCE");
  }

  /** A URL with encryption as the server has it and nothing about who comes. */
  String bare() {
    String encryption = tls ? "useEncryption=true&useSystemTrustStore=false&tlsRootCerts=" + authority : "useEncryption=false";
    return "jdbc:arrow-flight-sql://" + host + ":" + port + "?" + encryption;
  }

  /** A URL that gets in. */
  String url() {
    return user == null ? bare() : bare() + "&user=" + user + "&password=" + password;
  }

  Connection open() throws SQLException {
    return DriverManager.getConnection(url());
  }

  /** A connection of which a database is the one of tables without one. */
  Connection open(String database) throws SQLException {
    return DriverManager.getConnection(url() + "&database=" + database);
  }

  static long update(Connection connection, String sql) throws SQLException {
    try (Statement statement = connection.createStatement()) {
      return statement.executeLargeUpdate(sql);
    }
  }

  /** The first column of all rows. */
  static List<Object> column(Connection connection, String sql) throws SQLException {
    try (Statement statement = connection.createStatement()) {
      return column(statement.executeQuery(sql), 1);
    }
  }

  /** One column of all rows of a result, which is closed then: the driver's connections do not close over open ones. */
  static List<Object> column(ResultSet rows, Object which) throws SQLException {
    try (rows) {
      List<Object> values = new ArrayList<>();
      while (rows.next()) {
        values.add(which instanceof Integer i ? rows.getObject(i) : rows.getObject((String) which));
      }
      return values;
    }
  }

  static Object one(Connection connection, String sql) throws SQLException {
    List<Object> values = column(connection, sql);
    if (values.size() != 1) {
      throw new SQLException("expected one row, found " + values);
    }
    return values.get(0);
  }
}
