/** What the user may read: databases, tables, columns, series and tag values. Every query has a limit. */
import { rows } from '../api/sql';
import { containsPattern, quoteName, quoteTable, quoteText } from './names';

export interface Table {
  database: string;
  name: string;
  tags: number;
}

export interface Column {
  name: string;
  type: string;
  role: 'time' | 'field' | 'tag';
}

/** A list that may have more entries than were loaded. */
export interface Some<T> {
  items: T[];
  more: boolean;
}

const listed = 500;

function some<T>(items: T[], limit: number): Some<T> {
  return { items: items.slice(0, limit), more: items.length > limit };
}

export async function databases(): Promise<string[]> {
  const data = await rows({ sql: 'SHOW DATABASES', maxRows: 10_000 });
  return data.map((row) => String(row[0]));
}

export async function tables(database: string, search = ''): Promise<Some<Table>> {
  const filter = search === '' ? '' : ` AND lower(stable_name) LIKE ${containsPattern(search.toLowerCase())}`;
  const data = await rows({
    sql:
      `SELECT stable_name, tags FROM information_schema.ins_stables WHERE db_name = ${quoteText(database)}${filter} ` +
      `ORDER BY stable_name LIMIT ${listed + 1}`,
  });
  return some(
    data.map((row) => ({ database, name: String(row[0]), tags: Number(row[1]) })),
    listed,
  );
}

export async function columns(database: string, table: string): Promise<Column[]> {
  const data = await rows({ sql: `DESCRIBE ${quoteTable(database, table)}` });
  return data.map((row, index) => ({
    name: String(row[0]),
    type: String(row[1]),
    role: index === 0 ? 'time' : row[3] === 'TAG' ? 'tag' : 'field',
  }));
}

/** All columns that the user may read, for completion: database, table, column. */
export async function allColumns(): Promise<[string, string, string][]> {
  const data = await rows({
    sql:
      'SELECT table_schema, table_name, column_name FROM information_schema.columns ' +
      "WHERE table_schema NOT IN ('information_schema', 'system') LIMIT 20000",
  });
  return data.map((row) => [String(row[0]), String(row[1]), String(row[2])]);
}

/** The condition of tables of `information_schema` for one table. */
function ofTable(database: string, table: string): string {
  return `db_name = ${quoteText(database)} AND stable_name = ${quoteText(table)}`;
}

export async function seriesCount(database: string, table: string): Promise<number> {
  const data = await rows({
    sql: `SELECT count(*) FROM information_schema.ins_tables WHERE ${ofTable(database, table)}`,
  });
  return Number(data[0]?.[0] ?? 0);
}

export async function series(
  database: string,
  table: string,
  search: string,
  limit: number,
): Promise<Some<string>> {
  const filter = search === '' ? '' : ` AND table_name LIKE ${containsPattern(search)}`;
  const data = await rows({
    sql:
      `SELECT table_name FROM information_schema.ins_tables WHERE ${ofTable(database, table)}${filter} ` +
      `LIMIT ${limit + 1}`,
  });
  return some(
    data.map((row) => String(row[0])),
    limit,
  );
}

/** The name of a series, which is used as a tag. */
export const seriesName = 'tbname';

/** The rows of the values of a tag, and their column. They are read from tag manifests, not from the rows of the table. */
function valuesOf(database: string, table: string, tag: string): { column: string; from: string } {
  const where = ofTable(database, table);
  if (tag === seriesName)
    return { column: 'table_name', from: `information_schema.ins_tables WHERE ${where}` };
  return {
    column: 'tag_value',
    from: `information_schema.ins_tags WHERE ${where} AND tag_name = ${quoteText(tag)} AND tag_value IS NOT NULL`,
  };
}

export async function tagValues(
  database: string,
  table: string,
  tag: string,
  search: string,
  limit: number,
): Promise<Some<string>> {
  const { column, from } = valuesOf(database, table, tag);
  const filter = search === '' ? '' : ` AND ${column} LIKE ${containsPattern(search)}`;
  const data = await rows({
    sql: `SELECT DISTINCT ${column} FROM ${from}${filter} ORDER BY 1 LIMIT ${limit + 1}`,
  });
  return some(
    data.map((row) => String(row[0])),
    limit,
  );
}

/** The number of values of a tag, counted up to `limit`. */
export async function tagCount(database: string, table: string, tag: string, limit: number): Promise<number> {
  const { column, from } = valuesOf(database, table, tag);
  const data = await rows({
    sql: `SELECT count(*) FROM (SELECT DISTINCT ${column} FROM ${from} LIMIT ${limit})`,
  });
  return Number(data[0]?.[0] ?? 0);
}

/** The first and the last instant of a table in milliseconds; `null` if it has no rows. */
export async function extent(
  database: string,
  table: string,
): Promise<{ first: number; last: number } | null> {
  const data = await rows({ sql: `SELECT min(_rowts), max(_rowts) FROM ${quoteTable(database, table)}` });
  const [first, last] = data[0] ?? [];
  if (typeof first !== 'string' || typeof last !== 'string') return null;
  return { first: Date.parse(first), last: Date.parse(last) };
}

/** Ticks a millisecond, by the precision of a database. */
export const ticks: Readonly<Record<string, number>> = { ms: 1, us: 1e3, ns: 1e6 };

/** What the data files of a partition hold. */
export interface Stored {
  /** The first and the last instant in milliseconds. */
  first: number;
  last: number;
  rows: number;
  /** The rows of the files that have rollups. */
  rolled: number;
  /** The seconds of a bucket of the rollups; `null` without rollups. */
  bucket: number | null;
}

/** The newest partitions that are read. */
const mostPartitions = 10_000;

/** The data files of a table by partition. */
export async function stored(database: string, table: string): Promise<Stored[]> {
  const [data, settings] = await Promise.all([
    rows({
      sql:
        'SELECT min(min_ts), max(max_ts), sum(rows), sum(rows) FILTER (WHERE rollup_seconds IS NOT NULL), ' +
        `max(rollup_seconds) FROM system.files WHERE ${quoteName('database')} = ${quoteText(database)} ` +
        `AND ${quoteName('table')} = ${quoteText(table)} GROUP BY ${quoteName('partition')} ` +
        `ORDER BY 1 DESC LIMIT ${mostPartitions}`,
    }),
    rows({
      sql: `SELECT \`precision\` FROM information_schema.ins_databases WHERE name = ${quoteText(database)}`,
    }),
  ]);
  const tick = ticks[String(settings[0]?.[0])] ?? 1;
  return data.map(([first, last, count, rolled, bucket]) => ({
    first: Number(first) / tick,
    last: Number(last) / tick,
    rows: Number(count ?? 0),
    rolled: Number(rolled ?? 0),
    bucket: typeof bucket === 'number' ? bucket : null,
  }));
}
