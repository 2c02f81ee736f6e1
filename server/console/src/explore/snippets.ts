/** A statement as it is run elsewhere. */

export interface Origin {
  /** As in `http://127.0.0.1:8086`. */
  url: string;
  host: string;
  tls: boolean;
  /** Whether the server requires credentials. */
  auth: boolean;
}

export const snippetNames = { sql: 'SQL', curl: 'curl', python: 'Python', jdbc: 'JDBC' } as const;

export type SnippetKind = keyof typeof snippetNames;

export function originOf(location: Location, auth: boolean): Origin {
  const tls = location.protocol === 'https:';
  const port = location.port || (tls ? '443' : '80');
  return { url: location.origin, host: `${location.hostname}:${port}`, tls, auth };
}

function curl(sql: string, origin: Origin): string {
  const quoted = `'${sql.replaceAll("'", "'\\''")}'`;
  const token = origin.auth ? ' -H "authorization: Bearer $TIDELAKE_TOKEN"' : '';
  return `curl -sS${token} '${origin.url}/api/v1/sql?format=csv' --data-binary ${quoted}`;
}

function python(sql: string, origin: Origin): string {
  const scheme = origin.tls ? 'grpc+tls' : 'grpc';
  const text = sql.replaceAll('\\', '\\\\').replaceAll('"""', '\\"\\"\\"');
  const options = origin.auth
    ? 'options = {"adbc.flight.sql.authorization_header": f"Bearer {os.environ[\'TIDELAKE_TOKEN\']}"}\n'
    : '';
  return [
    '# pip install adbc-driver-flightsql adbc-driver-manager pyarrow pandas',
    ...(origin.auth ? ['import os', ''] : []),
    'import adbc_driver_flightsql.dbapi as flight_sql',
    '',
    `${options}with flight_sql.connect("${scheme}://${origin.host}"${origin.auth ? ', db_kwargs=options' : ''}, autocommit=True) as connection, connection.cursor() as cursor:`,
    `    cursor.execute("""\n${text}\n""")`,
    '    print(cursor.fetch_df())',
  ].join('\n');
}

function jdbc(sql: string, origin: Origin): string {
  const text = sql.replaceAll('\\', '\\\\').replaceAll('"""', '\\"""');
  const token = origin.auth ? '&token=" + System.getenv("TIDELAKE_TOKEN")' : '"';
  return [
    '// org.apache.arrow:flight-sql-jdbc-driver, java --add-opens=java.base/java.nio=ALL-UNNAMED -Duser.timezone=UTC',
    'import java.sql.DriverManager;',
    '',
    'class Query {',
    '  public static void main(String[] arguments) throws Exception {',
    `    var url = "jdbc:arrow-flight-sql://${origin.host}?useEncryption=${String(origin.tls)}${token};`,
    '    try (var connection = DriverManager.getConnection(url);',
    '        var statement = connection.createStatement();',
    '        var rows = statement.executeQuery("""',
    ...text.split('\n').map((line) => `            ${line}`),
    '            """)) {',
    '      while (rows.next()) {',
    '        System.out.println(rows.getString(1) + " " + rows.getString(2));',
    '      }',
    '    }',
    '  }',
    '}',
  ].join('\n');
}

export function snippet(kind: SnippetKind, sql: string, origin: Origin): string {
  switch (kind) {
    case 'sql':
      return sql;
    case 'curl':
      return curl(sql, origin);
    case 'python':
      return python(sql, origin);
    case 'jdbc':
      return jdbc(sql, origin);
  }
}
