import { expect, it } from 'vitest';
import type { Column, Stored } from '../catalog/catalog';
import { densityOf, plan, type Facts } from './data';
import { initial, type View } from './state';

const day = 86_400_000;

const columns: Column[] = [
  { name: 'ts', type: 'TIMESTAMP', role: 'time' },
  { name: 'usage', type: 'DOUBLE', role: 'field' },
  { name: 'up', type: 'BOOL', role: 'field' },
  { name: 'host', type: 'NCHAR', role: 'tag' },
  { name: 'tbname', type: 'VARCHAR', role: 'tag' },
];

/** A day with many rows, and one with few. */
const partitions: Stored[] = [
  { first: 0, last: day - 1, rows: 1e8, rolled: 1e8, bucket: 60 },
  { first: day, last: 2 * day - 1, rows: 1000, rolled: 0, bucket: null },
];

const facts: Facts = { columns, extent: { first: 0, last: 2 * day - 1 }, partitions };

const view: View = {
  ...initial,
  database: 'fleet',
  table: 'cpu',
  fields: ['usage'],
  range: { kind: 'between', from: 0, to: 7_200_000 },
};

it('counts the rows of the partitions in a range', () => {
  expect(densityOf(partitions, { from: 0, to: day })).toEqual({ rows: 1e8, bucket: 60_000 });
  expect(densityOf(partitions, { from: day / 2, to: day }).rows).toBeCloseTo(5e7);
  expect(densityOf(partitions, { from: day, to: 2 * day })).toEqual({ rows: 1000, bucket: null });
  expect(densityOf(partitions, { from: 2 * day, to: 3 * day })).toEqual({ rows: 0, bucket: null });
  // A file with one instant.
  const instant = { first: 5, last: 5, rows: 7, rolled: 7, bucket: 60 };
  expect(densityOf([instant], { from: 5, to: 6 })).toEqual({ rows: 7, bucket: 60_000 });
  expect(densityOf([instant], { from: 0, to: 5 }).rows).toBe(0);
});

it('uses buckets only if most rows of the range have them', () => {
  const half = (rolled: number): Stored => ({ first: 0, last: day - 1, rows: 1e8, rolled, bucket: 60 });
  expect(densityOf([half(4e7)], { from: 0, to: day }).bucket).toBeNull();
  expect(densityOf([half(6e7)], { from: 0, to: day }).bucket).toBe(60_000);
});

it('plans windows of whole buckets where rollups answer', async () => {
  const windowOf = async (part: Partial<View>) => (await plan({ ...view, ...part }, facts, 1000)).window.text;
  expect(await windowOf({})).toBe('1m');
  expect(await windowOf({ filters: [{ tag: 'host', values: ['a'] }] })).toBe('1m');
  for (const part of [
    { aggregate: 'p95' as const },
    { fields: ['usage', 'up'] },
    { filters: [{ tag: 'tbname', values: ['a'] }] },
    { range: { kind: 'between' as const, from: day, to: day + 7_200_000 } },
  ]) {
    expect(await windowOf(part)).toBe('30s');
  }
});
