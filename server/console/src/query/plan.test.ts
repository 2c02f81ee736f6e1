import { expect, it } from 'vitest';
import { flatten, parsePlan, parseQuantity, parseSeconds, totalsOf } from './plan';

const text = `Paced, metrics=[]
  SortExec: expr=[v@0 ASC], metrics=[output_rows=284, elapsed_compute=123.60µs, output_bytes=8.3 KB]
    SeriesAggregate: fleet.cpu, files=2/3, rows=182971, manifests=[chunks=4, rows=80], rollups=[chunks=0, rows=0, totals=0], decoded=[chunks=2000, rows=182971], groups=4, metrics=[output_rows=1.85 K, elapsed_compute=35.42ms, rows_read=71.00 K, store_bytes=881.8 K, store_requests=7]
`;

it('reads the tree of EXPLAIN ANALYZE', () => {
  const nodes = flatten(parsePlan(text));
  expect(nodes.map((node) => [node.name, node.depth])).toEqual([
    ['Paced', 0],
    ['SortExec', 1],
    ['SeriesAggregate', 2],
  ]);
  expect(nodes[1]?.seconds).toBeCloseTo(123.6e-6);
  expect(nodes[2]).toMatchObject({ rows: 1850, requests: 7, bytes: 881_800 });
  expect(nodes[2]?.detail).toBe('fleet.cpu, files=2/3, rows=182971, groups=4');
});

it('adds up requests, bytes and levels', () => {
  const totals = totalsOf(flatten(parsePlan(text)));
  expect(totals.requests).toBe(7);
  expect(totals.levels).toEqual([
    { name: 'manifests', chunks: 4, rows: 80 },
    { name: 'rollups', chunks: 0, rows: 0 },
    { name: 'rows', chunks: 2000, rows: 182_971 },
  ]);
});

it('reads quantities and times', () => {
  expect(parseQuantity('8.3 KB')).toBeCloseTo(8.3 * 1024);
  expect(parseQuantity('0.0 B')).toBe(0);
  expect(parseSeconds('379ns')).toBeCloseTo(379e-9);
});
