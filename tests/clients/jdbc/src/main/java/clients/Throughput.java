package clients;

import java.net.URI;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;

/** How fast a large answer comes: asks the servers of THROUGHPUT_URLS in turns and prints the time of each run, the first of which, 0, finds nothing warm. */
final class Throughput {
  private Throughput() {}

  public static void main(String[] arguments) throws SQLException {
    String sql = System.getenv("THROUGHPUT_SQL");
    String[] urls = System.getenv("THROUGHPUT_URLS").split(" ");
    int runs = Integer.parseInt(System.getenv("THROUGHPUT_RUNS"));
    List<Connection> connections = new ArrayList<>();
    try {
      for (String url : urls) {
        URI place = URI.create(url);
        connections.add(DriverManager.getConnection("jdbc:arrow-flight-sql://" + place.getHost() + ":" + place.getPort() + "?useEncryption=false"));
      }
      for (int run = 0; run <= runs; run++) {
        for (int i = 0; i < urls.length; i++) {
          long begun = System.nanoTime();
          long rows = count(connections.get(i), sql);
          double seconds = (System.nanoTime() - begun) / 1e9;
          System.out.println("{\"url\": \"" + urls[i] + "\", \"run\": " + run + ", \"rows\": " + rows + ", \"seconds\": " + seconds + "}");
        }
      }
    } finally {
      for (Connection connection : connections) {
        connection.close();
      }
    }
  }

  /** All rows, and one value of each. */
  private static long count(Connection connection, String sql) throws SQLException {
    long rows = 0;
    try (Statement statement = connection.createStatement(); ResultSet result = statement.executeQuery(sql)) {
      while (result.next()) {
        result.getInt(2);
        rows++;
      }
    }
    return rows;
  }
}
