package clients;

import java.sql.Connection;

/**
 * The unmodified JDBC driver against the server that CLIENT_URL names.
 *
 * <p>CLIENT_USER and CLIENT_PASSWORD say that the server asks who comes, CLIENT_TOKEN is a token of that user, CLIENT_CA a file with
 * who signed the server's certificate. CLIENT_REFERENCE names another server, where known faults have to show, too; with TLS
 * CLIENT_MUTUAL_URL names one that wants a certificate, as CLIENT_CERTIFICATE and CLIENT_KEY are. The exit status is 1 when a step failed.
 */
public final class Main {
  private Main() {}

  public static void main(String[] arguments) throws Exception {
    Steps steps = new Steps();
    // The driver's threads outlive what was closed in the middle: only exit() ends the process.
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
