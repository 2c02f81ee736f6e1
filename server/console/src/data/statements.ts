/** Statements that define tables, and that delete. */
import type { Column } from '../catalog/catalog';
import { isNumeric, quoteName, quoteTable, quoteText } from '../catalog/names';
import { prepared, type Prepared } from '../widgets/StatementDialog';

/** Types of columns; any length can be written for those with one. */
export const types = [
  'DOUBLE',
  'BIGINT',
  'INT',
  'BOOL',
  'FLOAT',
  'SMALLINT',
  'TINYINT',
  'BIGINT UNSIGNED',
  'TIMESTAMP',
  'VARCHAR(64)',
  'NCHAR(64)',
  'VARBINARY(64)',
];

export interface Definition {
  name: string;
  type: string;
}

function isType(text: string): boolean {
  return /^[a-z]+( unsigned)?( ?\(\d{1,5}\))?$/i.test(text.trim());
}

/** `30`, `30d`, `240h`, `14400m`; empty: that of the database. */
export function isKeep(text: string): boolean {
  return /^(\d{1,6}[dhm]?)?$/.test(text);
}

function list(definitions: readonly Definition[]): string {
  return definitions.map(({ name, type }) => `${quoteName(name)} ${type.trim().toUpperCase()}`).join(', ');
}

export interface NewTable {
  database: string;
  table: string;
  time: string;
  fields: readonly Definition[];
  tags: readonly Definition[];
  keep: string;
}

/** `null` while a name or a type is missing, or there is no field. */
export function createTable({ database, table, time, fields, tags, keep }: NewTable): Prepared | null {
  const all = [...fields, ...tags];
  if (database === '' || table === '' || time === '' || fields.length === 0 || !isKeep(keep)) return null;
  if (all.some(({ name, type }) => name === '' || !isType(type))) return null;
  return prepared(
    `CREATE STABLE ${quoteTable(database, table)} (${quoteName(time)} TIMESTAMP, ${list(fields)})` +
      (tags.length === 0 ? '' : ` TAGS (${list(tags)})`) +
      (keep === '' ? '' : ` KEEP ${keep}`),
  );
}

export type Precision = 'ms' | 'us' | 'ns';

export function createDatabase(name: string, precision: Precision, keep: string): Prepared | null {
  if (name === '' || !isKeep(keep)) return null;
  return prepared(
    `CREATE DATABASE ${quoteName(name)} PRECISION '${precision}'${keep === '' ? '' : ` KEEP ${keep}`}`,
  );
}

export function addColumn(
  database: string,
  table: string,
  kind: 'COLUMN' | 'TAG',
  { name, type }: Definition,
): Prepared | null {
  if (name === '' || !isType(type)) return null;
  return prepared(`ALTER STABLE ${quoteTable(database, table)} ADD ${kind} ${list([{ name, type }])}`);
}

function kindOf(column: Column): 'COLUMN' | 'TAG' {
  return column.role === 'tag' ? 'TAG' : 'COLUMN';
}

export function dropColumn(database: string, table: string, column: Column): Prepared {
  return prepared(
    `ALTER STABLE ${quoteTable(database, table)} DROP ${kindOf(column)} ${quoteName(column.name)}`,
  );
}

/** `null` without another name. */
export function renameColumn(database: string, table: string, column: Column, name: string): Prepared | null {
  if (name === '' || name === column.name) return null;
  return prepared(
    `ALTER STABLE ${quoteTable(database, table)} RENAME ${kindOf(column)} ${quoteName(column.name)} TO ${quoteName(name)}`,
  );
}

export function keepDatabase(database: string, keep: string): Prepared | null {
  if (keep === '' || !isKeep(keep)) return null;
  return prepared(`ALTER DATABASE ${quoteName(database)} KEEP ${keep}`);
}

export function dropDatabase(database: string): Prepared {
  return prepared(`DROP DATABASE ${quoteName(database)}`);
}

export function keepTable(database: string, table: string, keep: string): Prepared | null {
  if (keep === '' || !isKeep(keep)) return null;
  return prepared(`ALTER STABLE ${quoteTable(database, table)} KEEP ${keep}`);
}

export function dropTable(database: string, table: string): Prepared {
  return prepared(`DROP TABLE ${quoteTable(database, table)}`);
}

/** Comparisons of a tag with a value. */
export const operators = ['=', '<>', 'LIKE'] as const;

export interface TagCondition {
  tag: string;
  operator: (typeof operators)[number];
  value: string;
}

/** Conditions as they are in a link. */
export function conditionsToText(conditions: readonly TagCondition[]): string {
  if (conditions.length === 0) return '';
  return JSON.stringify(conditions.map(({ tag, operator, value }) => [tag, operator, value]));
}

/** Conditions of a link; parts that are none are left out. */
export function conditionsFromText(text: string): TagCondition[] {
  let parts: unknown;
  try {
    parts = JSON.parse(text);
  } catch {
    return [];
  }
  if (!Array.isArray(parts)) return [];
  return parts.flatMap((part: unknown) => {
    const [tag, name, value] = Array.isArray(part) ? (part as unknown[]) : [];
    const operator = operators.find((one) => one === name);
    return typeof tag === 'string' && operator && typeof value === 'string' ? [{ tag, operator, value }] : [];
  });
}

export interface Selection {
  /** Instants as text; empty: no bound. `until` is not included. */
  from: string;
  until: string;
  tags: readonly TagCondition[];
}

/** `WHERE …`, or an empty text for all rows. */
export function whereOf(selection: Selection, columns: readonly Column[]): string {
  const time = quoteName(columns.find((column) => column.role === 'time')?.name ?? 'ts');
  const literal = ({ tag, operator, value }: TagCondition) => {
    const type = columns.find((column) => column.name === tag)?.type ?? '';
    const isNumber =
      operator !== 'LIKE' && isNumeric(type) && value.trim() !== '' && !Number.isNaN(Number(value));
    return isNumber ? value.trim() : quoteText(value);
  };
  const parts = [
    selection.from === '' ? '' : `${time} >= ${quoteText(selection.from)}`,
    selection.until === '' ? '' : `${time} < ${quoteText(selection.until)}`,
    ...selection.tags.map((one) => `${quoteName(one.tag)} ${one.operator} ${literal(one)}`),
  ].filter((part) => part !== '');
  return parts.length === 0 ? '' : ` WHERE ${parts.join(' AND ')}`;
}

export function countStatement(database: string, table: string, where: string): string {
  return `SELECT count(*) FROM ${quoteTable(database, table)}${where}`;
}

export function deleteStatement(database: string, table: string, where: string): Prepared {
  return prepared(`DELETE FROM ${quoteTable(database, table)}${where}`);
}
