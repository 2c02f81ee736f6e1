import { expect, it } from 'vitest';
import type { Column } from '../catalog/catalog';
import { fromParameters, initial, toParameters, type View } from './state';
import { statementOf } from './statement';

const columns: Column[] = [
  { name: 'ts', type: 'TIMESTAMP', role: 'time' },
  { name: 'usage', type: 'DOUBLE', role: 'field' },
  { name: 'up', type: 'BOOL', role: 'field' },
  { name: 'Host Name', type: 'NCHAR', role: 'tag' },
  { name: 'rack', type: 'INT', role: 'tag' },
];

const view: View = { ...initial, database: 'fleet', table: 'cpu', fields: ['usage'] };
const bounds = { from: 0, to: 60_000 };

it('asks for whole windows', () => {
  expect(statementOf(view, columns, bounds, '10s', false)).toBe(
    "SELECT _wstart AS time, avg(usage) AS usage\nFROM fleet.cpu\nWHERE ts >= '1970-01-01T00:00:00.000Z'\n" +
      "  AND ts < '1970-01-01T00:01:00.000Z'\nINTERVAL(10s)",
  );
});

it('quotes names and values by their types', () => {
  const filters = [
    { tag: 'Host Name', values: ["it's", 'b'] },
    { tag: 'rack', values: ['7'] },
  ];
  const sql = statementOf({ ...view, filters, group: 'Host Name' }, columns, bounds, '10s', true);
  expect(sql).toContain("`Host Name` IN ('it''s', 'b')");
  expect(sql).toContain('rack = 7');
  expect(sql).toContain('GROUP BY `Host Name` ORDER BY avg(usage) DESC LIMIT 10)');
  expect(sql).toContain('PARTITION BY `Host Name`\nINTERVAL(10s)');
});

it('averages Booleans, and computes percentiles', () => {
  expect(statementOf({ ...view, fields: ['up'] }, columns, bounds, '10s', false)).toContain(
    'avg(CAST(up AS INT)) AS up',
  );
  expect(statementOf({ ...view, aggregate: 'p95' }, columns, bounds, '10s', false)).toContain(
    'percentile_cont(usage, 0.95) AS usage',
  );
});

it('keeps a view in a link', () => {
  const other: View = {
    ...view,
    aggregate: 'max',
    group: 'rack',
    top: 20,
    filters: [{ tag: 'Host Name', values: ['a&b', 'c'] }],
    window: '5m',
    unit: 'bytes',
    log: true,
    compare: true,
    refresh: 30,
  };
  expect(fromParameters(toParameters(other))).toEqual(other);
});
