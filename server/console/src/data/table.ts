/** What the page Data knows of a table. */
import { rows } from '../api/sql';
import { columns, ticks, type Column } from '../catalog/catalog';
import { quoteTable, quoteText } from '../catalog/names';

export interface TableInfo {
  database: string;
  table: string;
  columns: Column[];
  /** The statement that creates it. */
  statement: string;
  /** Ticks a millisecond. */
  ticks: number;
  /** Milliseconds of a partition. */
  partition: number;
  /** Retention as text: that of the table, else that of its database. */
  keep: string;
  ownKeep: boolean;
}

const lengths: Record<string, number> = { d: 86_400_000, h: 3_600_000, m: 60_000 };

/** Milliseconds of `10d`, `36h`, `2160m`; 0 if the text is none. */
export function durationOf(text: string): number {
  const [, count = '0', unit = 'd'] = /^(\d+)([dhm])?$/.exec(text) ?? [];
  return Number(count) * (lengths[unit] ?? 0);
}

/** Whether a retention deletes rows that the present one keeps. One that cannot be read may be longer than any other. */
export function isShorter(now: string, next: string): boolean {
  const [present, length] = [durationOf(now), durationOf(next)];
  return length > 0 && (present === 0 || length < present);
}

export async function tableInfo(database: string, table: string, signal: AbortSignal): Promise<TableInfo> {
  const [found, created, settings] = await Promise.all([
    columns(database, table),
    rows({ sql: `SHOW CREATE TABLE ${quoteTable(database, table)}` }, signal),
    rows(
      {
        sql: `SELECT \`precision\`, duration, keep FROM information_schema.ins_databases WHERE name = ${quoteText(database)}`,
      },
      signal,
    ),
  ]);
  const [precision, duration, keep] = settings[0] ?? [];
  const statement = String(created[0]?.[1] ?? '');
  const own = / KEEP (\w+)$/.exec(statement)?.[1];
  return {
    database,
    table,
    columns: found,
    statement,
    ticks: ticks[String(precision)] ?? 1,
    partition: durationOf(String(duration)),
    keep: own ?? String(keep ?? ''),
    ownKeep: own !== undefined,
  };
}
