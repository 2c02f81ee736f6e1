/** `GET /api/v1/node/events`: the figures of the node that answers, once a second, and its log. */

/** Totals only grow while the process lives. */
export interface NodeFigures {
  time: string;
  version: string;
  started: string;
  uptime_seconds: number;
  store: {
    name: string;
    /** The cause if the store has no space left. */
    full: string | null;
    requests: Record<string, number>;
    sent_bytes: number;
    received_bytes: number;
  };
  process: {
    resident_bytes: number | null;
    processor_seconds: number | null;
    processors: number | null;
    threads: number | null;
    open_files: number | null;
  };
  memory: { pool: string; used_bytes: number; limit_bytes: number | null }[];
  queries: {
    running: number;
    waiting: number;
    stalled: number;
    planning: number;
    running_limit: number | null;
    waiting_limit: number | null;
    ended_total: number;
    rows_total: number;
    refused_total: number;
  };
  connections: { open: number; limit: number | null };
  /** Null where a protocol has no requests or rows of its own. */
  protocols: { protocol: string; requests_total: number | null; rows_total: number | null }[];
  /** The tables with the most rows since the start. */
  tables: { database: string; table: string; rows_total: number }[];
  ingest: Record<string, number>;
  /** Null where the store does not answer. */
  log: { segments: number | null; bytes: number | null; oldest_seconds: number | null };
  files: Record<string, number>;
  compaction: Record<string, number>;
  disk_cache: Record<string, number> | null;
  alarms: Alarm[];
}

export interface Alarm {
  name: string;
  severity: 'warning' | 'critical';
  text: string;
  /** The page of the documents under `operations/` that says what to do. */
  page: string;
}

export interface LogLine {
  time: string;
  level: string;
  target: string;
  message: string;
  fields: Record<string, unknown>;
}

export const eventsPath = '/api/v1/node/events';
