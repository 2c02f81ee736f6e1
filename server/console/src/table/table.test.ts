import { tableFromArrays, tableToIPC, TimestampNanosecond, vectorFromArray } from 'apache-arrow';
import { expect, it } from 'vitest';
import { formatTicks } from '../chart/instant';
import { decode } from './arrow';
import { millisecondsOf, textOf } from './cells';
import { example } from './example';
import { rowAt, rowHeight, scrollFor, scrollHeight } from './scrolling';

it('keeps all digits of times and of 64-bit integers', () => {
  expect(formatTicks(1_795_880_383_711_623_170n, 3, 'utc')).toBe('2026-11-28 15:39:43.711623170');
  expect(millisecondsOf(1_795_880_340_000_000_000n, 3)).toBe(1_795_880_340_000);
  expect(formatTicks(-1n, 3, 'utc')).toBe('1969-12-31 23:59:59.999999999');
  expect(formatTicks(1_500n, 1, 'utc')).toBe('1970-01-01 00:00:01.500');
  const integers = vectorFromArray(new BigInt64Array([9_007_199_254_740_993n]));
  expect(textOf(integers, 0, 'utc')).toBe('9007199254740993');
  const times = vectorFromArray([1], new TimestampNanosecond());
  expect(textOf(times, 0, 'utc')).toMatch(/^1970-01-01 00:00:00\.\d{9}$/);
});

it('decodes a stream batch by batch', async () => {
  const ipc = tableToIPC(tableFromArrays({ n: Int32Array.from([1, 2, 3]) }), 'stream');
  let last;
  for await (const progress of decode(new Response(new Uint8Array(ipc)))) last = progress;
  expect(last?.result.rowCount).toBe(3);
  expect(last?.result.columns).toEqual([{ name: 'n', type: 'INT', kind: 'number' }]);
  expect(last?.result.number(2, 0)).toBe(3);
});

it('has an example that is a stream of one row', async () => {
  let last;
  for await (const progress of decode(example())) last = progress;
  expect(last?.result.rowCount).toBe(1);
  expect(last?.result.columns.map(({ name, type }) => `${name} ${type}`)).toEqual([
    'time TIMESTAMP',
    'value DOUBLE',
  ]);
  expect(last?.result.text(0, 0, 'utc')).toBe('1970-01-01 00:00:00.000');
  expect(last?.result.number(0, 1)).toBe(1);
});

it('reaches every row of a table that is higher than a browser allows', () => {
  const rows = 1_000_000;
  const height = 40 * rowHeight;
  expect(rowAt(0, rows, height)).toBe(0);
  expect(rowAt(scrollHeight(rows) - height, rows, height)).toBeCloseTo(rows - 40);
  for (const row of [1, 499_999, 999_960])
    expect(rowAt(scrollFor(row, rows, height), rows, height)).toBeCloseTo(row);
});
