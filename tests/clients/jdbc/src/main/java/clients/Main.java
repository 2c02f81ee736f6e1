package clients;

import java.sql.Connection;

/**
 * The unmodified JDBC driver against the server that CLIENT_URL names.
 *
 * <p>CLIENT_USER and CLIENT_PASSWORD are credentials for a server with authentication, CLIENT_TOKEN is a token of that user, CLIENT_CA
 * a file with the CA certificate. CLIENT_REFERENCE names a reference server, on which known faults must occur too; with TLS
 * CLIENT_MUTUAL_URL names a server that requires the client certificate CLIENT_CERTIFICATE and CLIENT_KEY. The exit status is 1 if a step failed.
 */
public final class Main {
  private Main() {}

  public static void main(String[] arguments) throws Exception {
    Steps steps = new Steps();
    // Threads of the driver survive an aborted connection: only exit() ends the process.
    try {
      run(new Target(), steps);
    } catch (Exception e) {
      steps.step("program", () -> { throw e; });
    }
    System.exit(steps.anyFailed() ? 1 : 0);
  }

  private static void run(Target target, Steps steps) throws Exception {
    new Connections(target, steps).run();
    try (Connection connection = target.open()) {
      Target.update(connection, "drop database if exists jdbc");
      Target.update(connection, "create database jdbc");
    }
    new Metadata(target, steps).run();
    new Browser(target, steps).run();
    new Types(target, steps).run();
    new Statements(target, steps).run();
    new Prepared(target, steps).run();
    new Setters(target, steps).run();
  }
}
