/** Runs statements and keeps what came of them. */
import { signal } from '@preact/signals';
import { ApiError, isAbort, toApiError } from '../api/errors';
import { kill, stream, type Parameter, type Statement } from '../api/sql';
import type { Piece } from '../editor/lexer';
import type { Result } from '../table/result';
import { remember } from './history';

export interface Run {
  key: number;
  statement: Statement;
  /** Where the statement begins in the text of the editor. */
  offset: number;
  state: 'running' | 'done' | 'failed' | 'cancelled';
  started: number;
  milliseconds: number;
  id: string | null;
  notice: string | null;
  bytes: number;
  rowCount: number;
  result: Result | null;
  error: ApiError | null;
  /** Whether the server has more rows than were requested. */
  truncated: boolean;
}

export const runs = signal<Run[]>([]);
export const running = signal(false);

let abort = new AbortController();
let keys = 0;

/** Milliseconds between two updates of a result that grows: each one draws the page. */
const pause = 120;

function change(key: number, part: Partial<Run>): void {
  runs.value = runs.value.map((run) => (run.key === key ? { ...run, ...part } : run));
}

function runOf(key: number): Run | undefined {
  return runs.value.find((run) => run.key === key);
}

async function follow(key: number, statement: Statement, limit: number, signal: AbortSignal): Promise<void> {
  const response = await stream({ ...statement, maxRows: limit + 1 }, signal);
  change(key, {
    id: response.headers.get('x-tidelake-query'),
    notice: response.headers.get('x-tidelake-notice'),
  });
  const { decode } = await import('../table/arrow');
  let shown = 0;
  let pending: Partial<Run> | null = null;
  for await (const { result, bytes } of decode(response)) {
    const now = performance.now();
    const last = {
      result,
      bytes,
      rowCount: Math.min(result.rowCount, limit),
      truncated: result.rowCount > limit,
    };
    if (now - shown > pause) {
      shown = now;
      pending = null;
      change(key, last);
    } else {
      pending = last;
    }
  }
  if (pending) change(key, pending);
}

/** A server that fails behind the first rows closes the connection, which says nothing about the cause. */
function failure(key: number, error: unknown): ApiError {
  if (error instanceof ApiError || !runOf(key)?.id) return toApiError(error);
  return new ApiError(
    'internal',
    0,
    'the answer ended before its last row: the statement failed, or it was killed',
  );
}

async function execute(key: number, statement: Statement, limit: number): Promise<boolean> {
  const started = performance.now();
  const { signal } = abort;
  try {
    await follow(key, statement, limit, signal);
    change(key, { state: 'done', milliseconds: performance.now() - started });
  } catch (error) {
    const milliseconds = performance.now() - started;
    if (isAbort(error) || signal.aborted) change(key, { state: 'cancelled', milliseconds });
    else change(key, { state: 'failed', error: failure(key, error), milliseconds });
  }
  const run = runOf(key);
  if (run && run.state !== 'cancelled') {
    remember({
      sql: statement.sql,
      database: statement.database ?? '',
      at: Date.now(),
      milliseconds: run.milliseconds,
      rows: run.state === 'done' ? run.rowCount : null,
      failed: run.state === 'failed',
    });
  }
  return run?.state === 'done';
}

/** Runs statements one after another, up to the first that fails. */
export async function runAll(
  pieces: readonly Piece[],
  database: string,
  params: readonly Parameter[],
  limit: number,
): Promise<void> {
  cancel();
  abort = new AbortController();
  const mine = abort;
  running.value = true;
  runs.value = [];
  let used = 0;
  for (const piece of pieces) {
    const key = ++keys;
    const statement: Statement = {
      sql: piece.text,
      ...(database === '' ? {} : { database }),
      params: params.slice(used, used + piece.parameters),
    };
    used += piece.parameters;
    const run: Run = {
      key,
      statement,
      offset: piece.from,
      state: 'running',
      started: performance.now(),
      milliseconds: 0,
      id: null,
      notice: null,
      bytes: 0,
      rowCount: 0,
      result: null,
      error: null,
      truncated: false,
    };
    runs.value = [...runs.value, run];
    const done = await execute(key, statement, limit);
    if (mine !== abort) return;
    if (!done) break;
  }
  running.value = false;
}

/** Ends the statement that runs: closing the connection stops it; KILL QUERY does so behind proxies that keep it. */
export function cancel(): void {
  const run = runs.value.find((one) => one.state === 'running');
  if (!run) return;
  abort.abort();
  if (run.id !== null) kill(run.id).catch(() => undefined);
}
