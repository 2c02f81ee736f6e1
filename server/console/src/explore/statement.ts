/** The statement behind a chart. */
import type { Column } from '../catalog/catalog';
import { isNumeric, quoteName, quoteTable, quoteText } from '../catalog/names';
import type { Aggregate, Filter, View } from './state';

export interface Bounds {
  from: number;
  to: number;
}

/** An aggregate that exists for the type of a column. */
export function aggregateFor(aggregate: Aggregate, type: string): Aggregate {
  return isNumeric(type) || /^BOOL/i.test(type) ? aggregate : 'count';
}

/** `avg(usage)`; the average of a Boolean is the fraction of true. */
export function aggregateOf(aggregate: Aggregate, column: Column): string {
  const name = quoteName(column.name);
  const fitting = aggregateFor(aggregate, column.type);
  const value = /^BOOL/i.test(column.type) && fitting !== 'count' ? `CAST(${name} AS INT)` : name;
  const percentile = /^p(\d+)$/.exec(fitting)?.[1];
  return percentile === undefined ? `${fitting}(${value})` : `percentile_cont(${value}, 0.${percentile})`;
}

function literal(value: string, column: Column | undefined): string {
  return column && isNumeric(column.type) && value.trim() !== '' && !Number.isNaN(Number(value))
    ? value.trim()
    : quoteText(value);
}

function condition(filter: Filter, columns: readonly Column[]): string {
  const column = columns.find((one) => one.name === filter.tag);
  const values = filter.values.map((value) => literal(value, column));
  const name = quoteName(filter.tag);
  return values.length === 1 ? `${name} = ${values.join('')}` : `${name} IN (${values.join(', ')})`;
}

/** The conditions of a view, joined by AND. */
export function conditions(view: View, columns: readonly Column[], bounds: Bounds): string[] {
  const time = quoteName(columns.find((column) => column.role === 'time')?.name ?? 'ts');
  return [
    `${time} >= '${new Date(bounds.from).toISOString()}'`,
    `${time} < '${new Date(bounds.to).toISOString()}'`,
    ...view.filters.filter((filter) => filter.values.length > 0).map((filter) => condition(filter, columns)),
  ];
}

/**
 * The statement of a view over whole windows: the columns `time`, the group if there is one, and one for each field.
 * With `limited`, only the `top` values of the group with the largest aggregate of the first field are returned.
 */
export function statementOf(
  view: View,
  columns: readonly Column[],
  bounds: Bounds,
  window: string,
  limited: boolean,
): string {
  const table = quoteTable(view.database, view.table);
  const fields = view.fields.flatMap((name) => columns.filter((column) => column.name === name));
  const where = conditions(view, columns, bounds);
  const group = view.group === null ? null : quoteName(view.group);
  const items = fields.map((column) => `${aggregateOf(view.aggregate, column)} AS ${quoteName(column.name)}`);
  const selected = ['_wstart AS time', ...(group === null ? [] : [group]), ...items];
  const lines = [`SELECT ${selected.join(', ')}`, `FROM ${table}`, `WHERE ${where.join('\n  AND ')}`];
  const first = fields[0];
  if (group !== null && limited && first) {
    lines.push(
      `  AND ${group} IN (`,
      `    SELECT ${group} FROM ${table}`,
      `    WHERE ${where.join(' AND ')}`,
      `    GROUP BY ${group} ORDER BY ${aggregateOf(view.aggregate, first)} DESC LIMIT ${view.top})`,
    );
  }
  if (group !== null) lines.push(`PARTITION BY ${group}`);
  lines.push(`INTERVAL(${window})`);
  return lines.join('\n');
}
