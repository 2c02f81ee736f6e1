/** What the page Data knows of a table. */
import { rows } from '../api/sql';
import { columns, type Column } from '../catalog/catalog';
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

const ticks: Record<string, number> = { ms: 1, us: 1e3, ns: 1e6 };
const lengths: Record<string, number> = { d: 86_400_000, h: 3_600_000, m: 60_000 };

/** Milliseconds of `10d`, `1h`; 0 if the text is none. */
export function durationOf(text: string): number {
  const [, count = '0', unit = 'd'] = /^(\d+)([dhm])?$/.exec(text) ?? [];
  return Number(count) * (lengths[unit] ?? 0);
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
