/** Runs statements and keeps what came of them. */
import { signal } from '@preact/signals';
import { ApiError, isAbort, toApiError, type ErrorKind } from '../api/errors';
import { follow, newQueryId, type Progress } from '../api/progress';
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
  id: string;
  /** The work on the server, for a statement that is not short. */
  progress: Progress | null;
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
/** Milliseconds after which a statement is followed: most end before. */
const patience = 400;
/** Milliseconds within which the server says why a statement ended. */
const endWithin = 3000;

function change(key: number, part: Partial<Run>): void {
  runs.value = runs.value.map((run) => (run.key === key ? { ...run, ...part } : run));
}

function runOf(key: number): Run | undefined {
  return runs.value.find((run) => run.key === key);
}

async function receive(run: Run, limit: number, signal: AbortSignal): Promise<void> {
  const { key, statement, id } = run;
  const response = await stream({ ...statement, id, maxRows: limit + 1 }, signal);
  change(key, { notice: response.headers.get('x-tidelake-notice') });
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

/** Follows a statement that runs for a while; without its events, the page shows the elapsed time only. */
async function watch(run: Run, signal: AbortSignal): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, patience));
  if (signal.aborted) return;
  try {
    await follow(run.id, signal, (progress) => change(run.key, { progress }));
  } catch {
    // The statement has ended, or the node has too many followers.
  }
}

/** A server that fails behind the first rows closes the connection; the last event of the statement says why. */
async function failure(run: Run, error: unknown): Promise<ApiError> {
  if (error instanceof ApiError && error.kind !== 'network') return error;
  try {
    const end = await follow(run.id, AbortSignal.timeout(endWithin), () => undefined);
    if (end?.state === 'killed') return new ApiError('conflict', 0, 'the query was killed');
    if (end?.error) return new ApiError(end.error.kind as ErrorKind, 0, end.error.message);
  } catch {
    // The server does not answer either.
  }
  return toApiError(error);
}

async function execute(started: Run, limit: number): Promise<boolean> {
  const { key, statement } = started;
  const elapsed = () => performance.now() - started.started;
  const { signal } = abort;
  const over = new AbortController();
  void watch(started, AbortSignal.any([signal, over.signal]));
  try {
    await receive(started, limit, signal);
    change(key, { state: 'done', milliseconds: elapsed() });
  } catch (error) {
    const milliseconds = elapsed();
    if (isAbort(error) || signal.aborted) change(key, { state: 'cancelled', milliseconds });
    else change(key, { state: 'failed', error: await failure(started, error), milliseconds });
  } finally {
    over.abort();
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
      id: newQueryId(),
      progress: null,
      notice: null,
      bytes: 0,
      rowCount: 0,
      result: null,
      error: null,
      truncated: false,
    };
    runs.value = [...runs.value, run];
    const done = await execute(run, limit);
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
  kill(run.id).catch(() => undefined);
}
