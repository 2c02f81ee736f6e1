/** Loads what a chart shows. */
import { stream } from '../api/sql';
import { columns, extent, seriesName, stored, tagCount, type Column, type Stored } from '../catalog/catalog';
import { boundsOf } from '../chart/range';
import { align, type Aligned, type Line, type Point } from '../chart/series';
import { aligned, windowFor, windowOf, windowOfDense, type Density, type Window } from '../chart/window';
import type { Result } from '../table/result';
import type { Aggregate, View } from './state';
import { statementOf, type Bounds } from './statement';

export interface Chart {
  statement: string;
  bounds: Bounds;
  window: Window;
  lines: Line[];
  aligned: Aligned;
  rowCount: number;
  milliseconds: number;
  /** Whether a group has more values than lines are shown. */
  limited: boolean;
}

const day = 86_400_000;

/** A group without a limit may have this many values. */
const lines = 50;

export interface Plan {
  statement: string;
  earlier: string | null;
  bounds: Bounds;
  window: Window;
  limited: boolean;
}

/** Aggregates that the server keeps beside the rows. */
const kept: ReadonlySet<Aggregate> = new Set(['avg', 'min', 'max', 'sum', 'count', 'spread']);

/** The rows of a range, and the buckets that answer for them if most of them have rollups. */
export function densityOf(partitions: readonly Stored[], { from, to }: Bounds): Density {
  let [rows, rolled, bucket] = [0, 0, 0];
  for (const part of partitions) {
    if (part.last < from || part.first >= to) continue;
    // The rows of a partition are spread over its time.
    const share = (Math.min(part.last + 1, to) - Math.max(part.first, from)) / (part.last + 1 - part.first);
    rows += share * part.rows;
    rolled += share * part.rolled;
    bucket = Math.max(bucket, (part.bucket ?? 0) * 1000);
  }
  return { rows, bucket: bucket > 0 && 2 * rolled > rows ? bucket : null };
}

/** Whether rollups may answer a view: they do not know the names of series, and aggregate no Booleans. */
function isRolled(view: View, known: readonly Column[]): boolean {
  const isBool = (name: string) => known.some((column) => column.name === name && /^BOOL/i.test(column.type));
  const named = view.filters.some((filter) => filter.tag === seriesName && filter.values.length > 0);
  return kept.has(view.aggregate) && !named && !view.fields.some(isBool);
}

/** The statements of a view: for the current range, and for the day before if it is compared. */
export async function plan(view: View, { columns: known, partitions }: Facts, pixels: number): Promise<Plan> {
  const { from, to } = boundsOf(view.range, Date.now());
  const automatic = isRolled(view, known)
    ? windowOfDense(to - from, pixels, densityOf(partitions, { from, to }))
    : windowFor(to - from, pixels);
  const window = windowOf(view.window) ?? automatic;
  const bounds = aligned(from, to, window);
  const limited = view.group !== null && (await isLarge(view, view.group));
  const at = (shift: number) =>
    statementOf(view, known, { from: bounds.from - shift, to: bounds.to - shift }, window.text, limited);
  return { statement: at(0), earlier: view.compare ? at(day) : null, bounds, window, limited };
}

const counts = new Map<string, number>();

/** Whether a group has more values than the view shows lines. A table rarely gets new values, so a count is kept. */
async function isLarge(view: View, group: string): Promise<boolean> {
  const key = [view.database, view.table, group].join('\n');
  let count = counts.get(key);
  if (count === undefined) {
    count = await tagCount(view.database, view.table, group, lines + 1);
    counts.set(key, count);
  }
  return count > view.top;
}

async function fetchResult(sql: string, signal: AbortSignal): Promise<Result> {
  const decoder = async () => {
    const arrow = await import('../table/arrow');
    await arrow.warmUp();
    return arrow;
  };
  const [response, { decode }] = await Promise.all([stream({ sql }, signal), decoder()]);
  let result: Result | null = null;
  for await (const progress of decode(response)) result = progress.result;
  if (result === null) throw new Error('the answer has no schema');
  return result;
}

/** Lines of a result with the columns `time`, the group if there is one, and one for each field. */
export function linesOf(result: Result, view: View, shift: number): Line[] {
  const firstField = view.group === null ? 1 : 2;
  const found = new Map<string, Point[]>();
  for (let row = 0; row < result.rowCount; row++) {
    const time = result.number(row, 0);
    if (time === null) continue;
    const key = view.group === null ? null : (result.text(row, 1, 'utc') ?? 'NULL');
    for (let column = firstField; column < result.columns.length; column++) {
      const field = result.columns[column]?.name ?? '';
      const name = key === null ? field : view.fields.length > 1 ? `${key} ${field}` : key;
      const points = found.get(name) ?? [];
      if (points.length === 0) found.set(name, points);
      points.push({ time: time + shift, value: result.number(row, column) });
    }
  }
  const earlier = shift > 0;
  return [...found].map(([name, points]) => ({
    name: earlier ? `${name}, day before` : name,
    points,
    earlier,
  }));
}

export async function loadChart(view: View, planned: Plan, signal: AbortSignal): Promise<Chart> {
  const started = performance.now();
  const [now, before] = await Promise.all([
    fetchResult(planned.statement, signal),
    planned.earlier === null ? null : fetchResult(planned.earlier, signal),
  ]);
  const all = [...linesOf(now, view, 0), ...(before === null ? [] : linesOf(before, view, day))];
  return {
    statement: planned.statement,
    bounds: planned.bounds,
    window: planned.window,
    limited: planned.limited,
    lines: all,
    aligned: align(all, planned.window.milliseconds),
    rowCount: now.rowCount + (before?.rowCount ?? 0),
    milliseconds: performance.now() - started,
  };
}

/** A chart that is loaded before its page is there. */
export interface Ahead {
  statement: string;
  loaded: Promise<Chart>;
  /** What `loaded` gave, if it was quick. */
  chart: Chart | null;
  abort: AbortController;
  isTaken: boolean;
}

/** Gives a chart to one page: a page that is opened again loads anew. */
export function take(ahead: Ahead | null): Ahead | null {
  if (ahead === null || ahead.isTaken) return null;
  ahead.isTaken = true;
  return ahead;
}

/** Milliseconds for which a page waits for its first chart: a page that is drawn once, with its chart, is there sooner. */
const soon = 80;

/** Begins to load a chart of about `pixels`, and waits a little for it. */
export async function ahead(view: View, facts: Facts, pixels: number): Promise<Ahead | null> {
  if (pixels <= 0 || view.fields.length === 0) return null;
  const abort = new AbortController();
  const late = new Promise<null>((resolve) => setTimeout(resolve, soon, null));
  const planned = await Promise.race([plan(view, facts, pixels).catch(() => null), late]);
  if (planned === null) return null;
  const loaded = loadChart(view, planned, abort.signal);
  const chart = await Promise.race([loaded.catch(() => null), late]);
  return { statement: planned.statement, loaded, chart, abort, isTaken: false };
}

/** What a chart must know of a table. */
export interface Facts {
  columns: Column[];
  /** The first and the last instant in milliseconds; `null` without rows. */
  extent: { first: number; last: number } | null;
  partitions: readonly Stored[];
}

/** The columns with the name of the series as a tag, the time that has rows, and the data files by partition. */
export async function factsOf(database: string, table: string): Promise<Facts> {
  const [all, range, partitions] = await Promise.all([
    columns(database, table),
    extent(database, table),
    // Without them, windows are as narrow as the pixels.
    stored(database, table).catch(() => []),
  ]);
  const tagged = all.some((column) => column.role === 'tag');
  return {
    columns: tagged ? [...all, { name: seriesName, type: 'VARCHAR', role: 'tag' }] : all,
    extent: range,
    partitions,
  };
}
