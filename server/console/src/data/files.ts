/** Data files and log segments of a table, in lists and numbers that are bounded however many there are. */
import { rows } from '../api/sql';
import type { Some } from '../catalog/catalog';
import { quoteName, quoteText } from '../catalog/names';

/** Rectangles of the picture: of more files, those that begin near each other are one. */
const mostBoxes = 2000;

/** Steps of time that files are joined by. */
const steps = 250;

/** Partitions and segments that are listed. */
export const listed = 200;

/** Bytes at which levels of compaction begin, from level 1 on. */
export const levelBytes = [16, 128, 1024, 8192, 65_536, 524_288].map((kibibytes) => kibibytes * 1024);

export interface Totals {
  files: number;
  rows: number;
  bytes: number;
  /** Ticks of the database; `null` without files. */
  first: number | null;
  last: number | null;
}

/** A file, or several that begin near each other. */
export interface Box {
  /** Milliseconds. */
  from: number;
  to: number;
  level: number;
  files: number;
  rows: number;
  bytes: number;
}

export interface Partition {
  /** Counted from the epoch, in lengths of a partition. */
  number: number;
  files: number;
  rows: number;
  bytes: number;
  first: number;
  last: number;
}

export interface Place {
  database: string;
  table: string;
  /** Ticks a millisecond. */
  ticks: number;
  partition: number | null;
}

export function levelOf(bytes: number): number {
  return levelBytes.filter((least) => bytes >= least).length;
}

const levelExpression = `CASE ${levelBytes.map((least, level) => `WHEN bytes < ${least} THEN ${level}`).join(' ')} ELSE ${levelBytes.length} END`;

function whereOf(place: Place): string {
  const partition = place.partition === null ? '' : ` AND ${quoteName('partition')} = ${place.partition}`;
  return (
    `WHERE ${quoteName('database')} = ${quoteText(place.database)} ` +
    `AND ${quoteName('table')} = ${quoteText(place.table)}${partition}`
  );
}

export async function totals(place: Place, signal: AbortSignal): Promise<Totals> {
  const data = await rows(
    {
      sql: `SELECT count(*), sum(rows), sum(bytes), min(min_ts), max(max_ts) FROM system.files ${whereOf(place)}`,
    },
    signal,
  );
  const [files, count, bytes, first, last] = data[0] ?? [];
  return {
    files: Number(files ?? 0),
    rows: Number(count ?? 0),
    bytes: Number(bytes ?? 0),
    first: typeof first === 'number' ? first / place.ticks : null,
    last: typeof last === 'number' ? last / place.ticks : null,
  };
}

export async function boxes(place: Place, all: Totals, signal: AbortSignal): Promise<Box[]> {
  const where = whereOf(place);
  const width = Math.max(1, Math.ceil((((all.last ?? 0) - (all.first ?? 0)) * place.ticks) / steps));
  const first = Math.floor((all.first ?? 0) * place.ticks);
  const sql =
    all.files <= mostBoxes
      ? `SELECT ${levelExpression} AS level, 1 AS files, rows, bytes, min_ts, max_ts FROM system.files ${where} ` +
        `ORDER BY min_ts LIMIT ${mostBoxes}`
      : `SELECT level, count(*), sum(rows), sum(bytes), min(min_ts), max(max_ts) FROM (SELECT ${levelExpression} AS level, ` +
        `(min_ts - ${BigInt(first)}) / ${BigInt(width)} AS step, rows, bytes, min_ts, max_ts FROM system.files ${where}) ` +
        `GROUP BY level, step ORDER BY 5 LIMIT ${mostBoxes}`;
  const data = await rows({ sql }, signal);
  return data.map(([level, files, count, bytes, from, to]) => ({
    level: Number(level),
    files: Number(files),
    rows: Number(count),
    bytes: Number(bytes),
    from: Number(from) / place.ticks,
    to: Number(to) / place.ticks,
  }));
}

export async function partitions(place: Place, signal: AbortSignal): Promise<Some<Partition>> {
  const name = quoteName('partition');
  const data = await rows(
    {
      sql:
        `SELECT ${name}, count(*), sum(rows), sum(bytes), min(min_ts), max(max_ts) FROM system.files ` +
        `${whereOf({ ...place, partition: null })} GROUP BY ${name} ORDER BY ${name} DESC LIMIT ${listed + 1}`,
    },
    signal,
  );
  const items = data.map(([number, files, count, bytes, first, last]) => ({
    number: Number(number),
    files: Number(files),
    rows: Number(count),
    bytes: Number(bytes),
    first: Number(first) / place.ticks,
    last: Number(last) / place.ticks,
  }));
  return { items: items.slice(0, listed), more: items.length > listed };
}

export interface Segment {
  path: string;
  /** Milliseconds; `null` if the segment cannot be read. */
  time: number | null;
  series: number;
  rows: number;
  bytes: number;
  fault: string | null;
}

/** The newest log segments with rows of the table, and those that cannot be read, of which the table is unknown. */
export async function segments(place: Place, signal: AbortSignal): Promise<Some<Segment>> {
  const data = await rows(
    {
      sql:
        `SELECT path, time, series, rows, bytes, fault FROM system.log ${whereOf({ ...place, partition: null })} ` +
        `OR fault IS NOT NULL ORDER BY time DESC NULLS FIRST LIMIT ${listed + 1}`,
    },
    signal,
  );
  const items = data.map(([path, time, series, count, bytes, fault]) => ({
    path: String(path),
    time: typeof time === 'string' ? Date.parse(time) : null,
    series: Number(series ?? 0),
    rows: Number(count ?? 0),
    bytes: Number(bytes ?? 0),
    fault: typeof fault === 'string' ? fault : null,
  }));
  return { items: items.slice(0, listed), more: items.length > listed };
}

/** Lanes of one level; further files share the last one. */
export const mostLanes = 8;

export interface Placed extends Box {
  lane: number;
}

export interface Band {
  level: number;
  lanes: number;
  boxes: Placed[];
}

/** Puts boxes that overlap into lanes below each other; the highest level is the last band. */
export function bandsOf(all: readonly Box[]): Band[] {
  const levels = [...new Set(all.map((box) => box.level))].sort((one, other) => one - other);
  return levels.map((level) => {
    const ends: number[] = [];
    const placed = all
      .filter((box) => box.level === level)
      .sort((one, other) => one.from - other.from)
      .map((box) => {
        const free = ends.findIndex((end) => end < box.from);
        const lane = free >= 0 ? free : Math.min(ends.length, mostLanes - 1);
        ends[lane] = Math.max(ends[lane] ?? -Infinity, box.to);
        return { ...box, lane };
      });
    return { level, lanes: ends.length, boxes: placed };
  });
}
