/** `POST /api/v1/sql`: small answers as JSON, results as a stream of Arrow. */
import { send } from './http';

export type Parameter = string | number | boolean | null;

export interface Statement {
  sql: string;
  database?: string;
  params?: readonly Parameter[];
  maxRows?: number;
  /** The ID that the server uses for the statement. */
  id?: string;
}

/** Formats that a result can be downloaded in. */
export type ExportFormat = 'csv' | 'parquet' | 'arrow' | 'json' | 'ndjson';

function bodyOf(statement: Statement): string {
  const { sql, database, params, maxRows } = statement;
  return JSON.stringify({
    sql,
    ...(database ? { database } : {}),
    ...(params && params.length > 0 ? { params } : {}),
    ...(maxRows === undefined ? {} : { max_rows: maxRows }),
  });
}

function post(statement: Statement, accept: string, signal?: AbortSignal): Promise<Response> {
  return send('/api/v1/sql', {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept,
      ...(statement.id === undefined ? {} : { 'x-tidelake-query': statement.id }),
    },
    body: bodyOf(statement),
    ...(signal ? { signal } : {}),
  });
}

export type Value = string | number | boolean | null;

/** Rows of a small answer. Integers beyond 2^53 lose digits here: use `stream` for data. */
export async function rows(statement: Statement, signal?: AbortSignal): Promise<Value[][]> {
  const response = await post(statement, 'application/json', signal);
  return ((await response.json()) as { data: Value[][] }).data;
}

/** The answer as an Arrow IPC stream. */
export function stream(statement: Statement, signal?: AbortSignal): Promise<Response> {
  return post(statement, 'application/vnd.apache.arrow.stream', signal);
}

const types: Record<ExportFormat, string> = {
  csv: 'text/csv',
  parquet: 'application/vnd.apache.parquet',
  arrow: 'application/vnd.apache.arrow.stream',
  json: 'application/json',
  ndjson: 'application/x-ndjson',
};

/** The whole result as a file. The statement runs again, on the server's current data. */
export async function exported(
  statement: Statement,
  format: ExportFormat,
  signal?: AbortSignal,
): Promise<Blob> {
  const response = await post(statement, types[format], signal);
  return new Blob([await response.arrayBuffer()], { type: types[format] });
}

/** Ends a query by its ID. */
export async function kill(id: string): Promise<void> {
  await rows({ sql: killStatement('QUERY', id) });
}

export function killStatement(what: 'QUERY' | 'CONNECTION', id: string): string {
  return `KILL ${what} '${id.replaceAll("'", "''")}'`;
}
