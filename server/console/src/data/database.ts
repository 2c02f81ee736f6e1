/** What the page Data knows of databases. */
import { rows } from '../api/sql';
import type { Some } from '../catalog/catalog';

export interface DatabaseInfo {
  name: string;
  tables: number;
  precision: string;
  /** Lengths as text, such as `10d`. */
  partition: string;
  keep: string;
}

/** Databases that are listed. */
const listed = 200;

export async function databasesInfo(signal: AbortSignal): Promise<Some<DatabaseInfo>> {
  const [settings, tables] = await Promise.all([
    rows(
      {
        sql:
          'SELECT name, `precision`, duration, keep FROM information_schema.ins_databases ' +
          `ORDER BY name LIMIT ${listed + 1}`,
      },
      signal,
    ),
    rows({ sql: 'SELECT db_name, count(*) FROM information_schema.ins_stables GROUP BY db_name' }, signal),
  ]);
  const counts = new Map(tables.map(([name, count]) => [String(name), Number(count)]));
  const items = settings.slice(0, listed).map(([name, precision, partition, keep]) => ({
    name: String(name),
    tables: counts.get(String(name)) ?? 0,
    precision: String(precision),
    partition: String(partition),
    keep: String(keep),
  }));
  return { items, more: settings.length > listed };
}
