/** A node that writes 500 rows a second: its figures and its log, one second later each 100 ms. */
import type { IncomingMessage, ServerResponse } from 'node:http';

export const path = '/api/v1/node/events';

const began = Date.parse('2026-11-29T01:00:00Z');

/** The figures `seconds` after the start, as `GET /api/v1/node` has them. */
export function figuresAt(seconds: number): object {
  return {
    time: new Date(began + seconds * 1000).toISOString(),
    version: '0.1.0',
    started: new Date(began).toISOString(),
    uptime_seconds: seconds,
    store: {
      name: 's3 bucket/root',
      full: null,
      requests: { put: 2 * seconds, get: 10 * seconds, head: 0, list: seconds, delete: 0 },
      sent_bytes: 1_000_000,
      received_bytes: 2_000_000,
    },
    process: { resident_bytes: 200_000_000, processor_seconds: seconds, processors: 2, threads: 20, open_files: 50 },
    memory: [
      { pool: 'query', used_bytes: 450_000_000, limit_bytes: 1_000_000_000 },
      { pool: 'ingest_buffer', used_bytes: 1_000_000, limit_bytes: 64_000_000 },
      { pool: 'tail', used_bytes: 63_000_000, limit_bytes: 64_000_000 },
    ],
    queries: {
      running: 1,
      waiting: 0,
      stalled: 0,
      planning: 0,
      running_limit: 4,
      waiting_limit: 64,
      ended_total: 5 * seconds,
      rows_total: 100,
      refused_total: 0,
    },
    connections: { open: 3, limit: 1000 },
    protocols: [
      { protocol: 'influxdb', requests_total: seconds, rows_total: 400 * seconds },
      { protocol: 'sql', requests_total: seconds, rows_total: 100 * seconds },
      { protocol: 'flight', requests_total: seconds, rows_total: null },
    ],
    tables: [
      { database: 'home', table: 'climate', rows_total: 400 * seconds },
      { database: 'home', table: 'a_table_with_a_name_that_is_longer_than_most_others', rows_total: 100 * seconds },
    ],
    ingest: { rows_total: 500 * seconds, rejected_total: 7, throttled_total: 0, lost_rows_total: 0 },
    log: { segments: 3, bytes: 4096, oldest_seconds: 4.2 },
    files: { tables: 2, partitions: 4, files: 12, rows: 1_000_000, bytes: 3_000_000, to_merge: 1 },
    compaction: { folds_total: 5, merges_total: 1, file_bytes_total: 3_000_000, failures_total: 0 },
    disk_cache: null,
    alarms: [
      { name: 'log_lag', severity: 'warning', text: 'the oldest row of the log is 95 s old', page: 'lag' },
      { name: 'corrupt', severity: 'critical', text: 'a log segment cannot be read', page: 'corrupt-object' },
    ],
  };
}

interface LogLine {
  time: string;
  level: string;
  target: string;
  message: string;
  fields: { table: string; rows: number };
}

const levels = ['error', 'warn', 'info', 'debug', 'trace'];

/** The lines that a client asks for: of a level or a more severe one, with all words. */
function selectionOf(query: URLSearchParams): (line: LogLine) => boolean {
  const words = (query.get('words') ?? '').split(' ').filter((word) => word !== '');
  const most = levels.indexOf(query.get('level') ?? 'trace');
  return ({ level, target, message, fields }) =>
    levels.indexOf(level.toLowerCase()) <= most &&
    words.every((word) => `${target} ${message} table=${fields.table} rows=${fields.rows}`.includes(word));
}

function logLine(number: number): LogLine {
  return {
    time: new Date(began + number).toISOString(),
    level: number % 5 === 0 ? 'WARN' : number % 2 === 0 ? 'INFO' : 'DEBUG',
    target: 'tidelake_ingest::compact',
    message: `line ${number}`,
    fields: { table: 'climate', rows: number },
  };
}

/** Streams of events to pages, which a test can break. */
export class FakeNode {
  /** Streams that are open. */
  readonly open = new Set<ServerResponse>();
  /** The queries of all streams. */
  readonly queries: URLSearchParams[] = [];
  private readonly selections = new Map<ServerResponse, (line: LogLine) => boolean>();
  private readonly kept: LogLine[] = [];
  private seconds = 60;
  private lines = 0;
  private refusing = false;
  private readonly timer = setInterval(() => this.tick(), 100);

  answer(request: IncomingMessage, response: ServerResponse): boolean {
    if (request.url?.split('?')[0] !== path) return false;
    if (this.refusing) {
      response.writeHead(503, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ error: { kind: 'unavailable', message: 'the server is stopping' } }));
      return true;
    }
    response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
    const query = new URL(request.url, 'http://node').searchParams;
    this.queries.push(query);
    this.open.add(response);
    this.selections.set(response, selectionOf(query));
    response.on('close', () => this.open.delete(response));
    for (const line of this.kept.slice(-1000)) this.sendTo(response, line);
    return true;
  }

  /** Ends all streams, and refuses further ones until `mend`. */
  break(): void {
    this.refusing = true;
    for (const response of this.open) response.destroy();
  }

  mend(): void {
    this.refusing = false;
  }

  /** Sends lines of the log. */
  log(count: number): void {
    for (let number = 0; number < count; number++) {
      const line = logLine(++this.lines);
      this.kept.push(line);
      for (const response of this.open) this.sendTo(response, line);
    }
  }

  /** Sends the figures of the next seconds at once. */
  play(seconds: number): void {
    for (let second = 0; second < seconds; second++) this.tick();
  }

  close(): void {
    clearInterval(this.timer);
  }

  private tick(): void {
    this.seconds++;
    this.send('node', figuresAt(this.seconds));
  }

  private sendTo(response: ServerResponse, line: LogLine): void {
    if (this.selections.get(response)?.(line)) response.write(`event: log\ndata: ${JSON.stringify(line)}\n\n`);
  }

  private send(name: string, data: object): void {
    for (const response of this.open) response.write(`event: ${name}\ndata: ${JSON.stringify(data)}\n\n`);
  }
}
