/** Running queries and open connections, and how to end them. */
import type { JSX } from 'preact';
import { killStatement, rows } from '../api/sql';
import { formatInstant, zone } from '../chart/instant';
import { formatCount, formatDuration } from '../chart/units';
import { DataTable, type TableColumn } from '../widgets/DataTable';
import { RowButton } from '../widgets/RowButton';
import { useLoaded } from '../widgets/loaded';
import { ErrorNotice, Loading } from '../widgets/Notice';
import { prepared, type Question } from '../widgets/StatementDialog';
import { stopped } from './stream';

const interval = 2000;
const listed = 100;

interface Running {
  id: string;
  state: string;
  database: string;
  user: string;
  milliseconds: number;
  rows: number;
  sql: string;
}

const queriesStatement = `SELECT id, state, "database", "user", elapsed_ms, rows, sql FROM system.queries ORDER BY elapsed_ms DESC LIMIT ${listed + 2}`;
const connectionsStatement = `SELECT * FROM system.connections ORDER BY requests DESC LIMIT ${listed + 1}`;

async function queries(signal: AbortSignal): Promise<Running[]> {
  const data = await rows({ sql: queriesStatement }, signal);
  return data
    .map(([id, state, database, user, milliseconds, count, sql]) => ({
      id: String(id),
      state: String(state),
      database: String(database ?? ''),
      user: String(user ?? ''),
      milliseconds: Number(milliseconds),
      rows: Number(count),
      sql: String(sql),
    }))
    .filter((query) => query.sql !== queriesStatement && query.sql !== connectionsStatement);
}

interface Connection {
  id: string;
  address: string;
  user: string;
  started: number;
  requests: number;
}

async function connections(signal: AbortSignal): Promise<Connection[]> {
  const data = await rows({ sql: connectionsStatement }, signal);
  return data.map(([id, address, user, started, , requests]) => ({
    id: String(id),
    address: String(address),
    user: String(user ?? ''),
    started: Date.parse(String(started)),
    requests: Number(requests),
  }));
}

export function Statements({ ask }: { ask: (question: Question) => void }): JSX.Element {
  const every = stopped.value ? 0 : interval;
  const running = useLoaded(queries, 'queries', { every });
  const open = useLoaded(connections, 'connections', { every });

  const queryColumns: TableColumn<Running>[] = [
    { name: 'Statement', cell: (query) => <code class="clip">{query.sql}</code> },
    { name: 'State', cell: (query) => query.state },
    { name: 'User', cell: (query) => query.user },
    { name: 'Database', cell: (query) => query.database },
    { name: 'Time', number: true, cell: (query) => formatDuration(query.milliseconds / 1000, 3) },
    { name: 'Rows', number: true, cell: (query) => formatCount(query.rows) },
    {
      name: 'End',
      cell: (query) => (
        <RowButton
          text="Kill"
          label={`Kill the query ${query.id}`}
          danger
          onClick={() =>
            ask({
              title: 'Kill this query?',
              statement: prepared(killStatement('QUERY', query.id)),
              action: 'Kill the query',
              danger: true,
              onDone: running.reload,
              children: (
                <>
                  <p>Its client gets an error. Nothing that it has written is undone.</p>
                  <pre class="statement" tabIndex={0} aria-label="Statement of the query">
                    {query.sql}
                  </pre>
                </>
              ),
            })
          }
        />
      ),
    },
  ];
  const connectionColumns: TableColumn<Connection>[] = [
    { name: 'Address', cell: (one) => one.address },
    { name: 'User', cell: (one) => one.user },
    { name: 'Open since', cell: (one) => formatInstant(one.started, zone.value) },
    { name: 'Requests', number: true, cell: (one) => formatCount(one.requests) },
    {
      name: 'End',
      cell: (one) => (
        <RowButton
          text="Kill"
          label={`Kill the connection ${one.id}`}
          danger
          onClick={() =>
            ask({
              title: 'Kill this connection?',
              statement: prepared(killStatement('CONNECTION', one.id)),
              action: 'Kill the connection',
              danger: true,
              onDone: open.reload,
              children: (
                <p>
                  The connection from {one.address} closes at once, with all requests on it. It may be one of
                  this page, which then connects again.
                </p>
              ),
            })
          }
        />
      ),
    },
  ];

  return (
    <div class="live-panel">
      <h2>Running queries</h2>
      {running.error && <ErrorNotice error={running.error} retry={running.reload} />}
      {!running.value && !running.error && <Loading text="Loading queries" />}
      {running.value && (
        <DataTable
          label="Running queries"
          columns={queryColumns}
          rows={running.value.slice(0, listed)}
          keyOf={(query) => query.id}
          empty="No query runs on this node."
          foot={running.value.length > listed && `The ${listed} that run longest; SHOW QUERIES lists all.`}
        />
      )}
      <h2>Connections</h2>
      {open.error && <ErrorNotice error={open.error} retry={open.reload} />}
      {open.value && (
        <DataTable
          label="Connections"
          columns={connectionColumns}
          rows={open.value.slice(0, listed)}
          keyOf={(one) => one.id}
          empty="No connection is open."
          foot={
            open.value.length > listed && `The ${listed} with the most requests; SHOW CONNECTIONS lists all.`
          }
        />
      )}
    </div>
  );
}
