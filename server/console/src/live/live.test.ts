import { describe, expect, it } from 'vitest';
import { EventParser } from '../api/events';
import type { NodeFigures } from '../api/node';
import { costsOf, parsePrice, standard, totalOf } from './cost';
import { append, fieldsOf, initialSelection, joined, mostLines, select, unknown, type Level } from './log';
import { ratesOf } from './rates';
import { capacity, Ring } from './ring';
import { accept, figures, forget, lines, rings, selected, waitOf, wanted } from './stream';

const node: NodeFigures = {
  time: '2026-11-29T02:00:00Z',
  version: '0.1.0',
  started: '2026-11-29T01:00:00Z',
  uptime_seconds: 3600,
  store: { name: 's3', full: null, requests: { put: 10, get: 100 }, sent_bytes: 0, received_bytes: 0 },
  process: {
    resident_bytes: 1,
    processor_seconds: 10,
    processors: 2,
    threads: 1,
    open_files: 1,
  },
  memory: [],
  queries: {
    running: 0,
    waiting: 0,
    stalled: 0,
    planning: 0,
    running_limit: 4,
    waiting_limit: 64,
    ended_total: 5,
    rows_total: 0,
    refused_total: 0,
  },
  connections: { open: 1, limit: null },
  protocols: [
    { protocol: 'influxdb', requests_total: 1, rows_total: 1000 },
    { protocol: 'flight', requests_total: 1, rows_total: null },
  ],
  tables: [{ database: 'home', table: 'cpu', rows_total: 1000 }],
  ingest: {},
  log: { segments: 0, bytes: 0, oldest_seconds: null },
  files: {},
  compaction: {},
  disk_cache: null,
  alarms: [],
};

describe('rates', () => {
  const later: NodeFigures = {
    ...node,
    uptime_seconds: 3602,
    store: { ...node.store, requests: { put: 14, get: 100, list: 2 } },
    process: { ...node.process, processor_seconds: 12 },
    protocols: [{ protocol: 'influxdb', requests_total: 2, rows_total: 5000 }],
    tables: [
      { database: 'home', table: 'cpu', rows_total: 3000 },
      { database: 'home', table: 'disk', rows_total: 9000 },
    ],
  };

  it('are differences divided by the seconds in between', () => {
    const rates = ratesOf(node, later);
    expect([...(rates?.protocols ?? [])]).toEqual([['influxdb', 2000]]);
    expect(rates?.store.get('put')).toBe(2);
    expect(rates?.store.get('get')).toBe(0);
    expect(rates?.processor).toBe(0.5);
  });

  it('begin at 0 for a table that is new, and are unknown where the answer before may lack it', () => {
    const rates = ratesOf(node, later);
    expect(rates?.tables.get('home.cpu')).toBe(1000);
    expect(rates?.tables.get('home.disk')).toBe(4500);
    const others = Array.from({ length: 100 }, (_, index) => ({
      database: 'home',
      table: `t${index}`,
      rows_total: 1,
    }));
    expect(ratesOf({ ...node, tables: others }, later)?.tables.get('home.disk')).toBeNull();
  });

  it('are unknown over a restart, whose totals begin at 0', () => {
    expect(ratesOf(later, { ...node, started: '2026-11-29T02:00:01Z', uptime_seconds: 1 })).toBeNull();
    expect(ratesOf(later, { ...node, started: '2026-11-29T02:00:01Z', uptime_seconds: 9999 })).toBeNull();
    expect(ratesOf(node, node)).toBeNull();
  });

  it('are unknown for a total that has become smaller', () => {
    const smaller = { ...later, store: { ...node.store, requests: { put: 1 } } };
    expect(ratesOf(node, smaller)?.store.get('put')).toBeNull();
  });
});

describe('Ring', () => {
  it('keeps the newest samples, in order, with gaps where a name has no value', () => {
    const ring = new Ring();
    for (let second = 0; second < capacity + 10; second++) {
      ring.push(second * 1000, new Map(second % 2 === 0 ? [['a', second]] : []));
    }
    const { times, values } = ring.lines(['a', 'unknown']);
    expect(times.length).toBe(capacity);
    expect(times[0]).toBe(10_000);
    expect(times.at(-1)).toBe((capacity + 9) * 1000);
    expect(values[0]?.slice(0, 3)).toEqual([10, null, 12]);
    expect(values[1]?.every((value) => value === null)).toBe(true);
    expect(ring.latest('a')).toBeNull();
  });

  it('keeps ascending times, and the largest names of many', () => {
    const ring = new Ring();
    for (let name = 0; name < 500; name++) ring.push(5, new Map([[`t${name}`, name]]));
    expect(ring.largest(2)).toEqual(['t499', 't498']);
    expect(ring.largest(1000).length).toBe(120);
    const { times } = ring.lines([]);
    expect(times.every((time, index) => index === 0 || time > (times[index - 1] ?? 0))).toBe(true);
  });
});

describe('costs', () => {
  it('are those of a month of 30 days at the present rate', () => {
    const costs = costsOf(
      new Map([
        ['put', 1],
        ['list', 0.5],
        ['get', 10],
        ['delete', 5],
        ['head', null],
      ]),
      standard,
    );
    const month = Object.fromEntries(costs.map((cost) => [cost.kind, cost.month]));
    expect(month['put']).toBeCloseTo(2592 * 0.005);
    expect(month['list']).toBeCloseTo(1296 * 0.005);
    expect(month['get']).toBeCloseTo(25_920 * 0.0004);
    expect(month['delete']).toBe(0);
    expect(month['head']).toBe(0);
    expect(totalOf(costs)).toBeCloseTo(12.96 + 6.48 + 10.368);
  });

  it('take numbers that are not negative as prices', () => {
    expect(parsePrice(' 0.01 ')).toBe(0.01);
    for (const text of ['', '-1', 'x', 'Infinity']) expect(parsePrice(text)).toBeNull();
  });
});

describe('the log', () => {
  const line = (second: number, level = 'INFO', message = 'm') => ({
    time: new Date(second * 1000).toISOString(),
    level,
    target: 'tidelake_ingest::compact',
    message,
    fields: { rows: 5, table: 'cpu' },
  });

  it('keeps the newest lines, numbered', () => {
    const many = Array.from({ length: mostLines + 5 }, (_, second) => line(second));
    const kept = append([], many);
    expect(kept.length).toBe(mostLines);
    expect(append(kept, [line(9999)]).at(-1)?.number).toBe(mostLines + 6);
  });

  it('does not repeat the lines that a new connection sends again', () => {
    const kept = append([], [line(1), line(2)]);
    expect(unknown(kept, [line(1), line(2), line(3)])).toEqual([line(3)]);
    expect(unknown([], [line(1)])).toEqual([line(1)]);
  });

  it('selects by level and by words in message, target and fields', () => {
    const kept = append([], [line(1, 'ERROR', 'no space'), line(2, 'DEBUG'), line(3, 'INFO', 'folded')]);
    const found = (level: Level, words: string) => select(kept, { level, words }).map((one) => one.message);
    expect(found('INFO', '')).toEqual(['no space', 'folded']);
    expect(found('TRACE', 'table=cpu FOLDED')).toEqual(['folded']);
    expect(fieldsOf(line(1))).toBe('rows=5 table=cpu');
  });
});

describe('another selection of lines', () => {
  const line = (second: number) => ({
    time: new Date(second * 1000).toISOString(),
    level: 'INFO',
    target: 't',
    message: `line ${second}`,
    fields: {},
  });

  it('keeps the lines that are older than those which the server sends again', () => {
    const before = append([], [line(1), line(2), line(3)]);
    const first = joined(before, append([], [line(2), line(3)], 3), 3);
    expect(first.map((one) => one.number)).toEqual([1, 4, 5]);
    // Later lines of the stream are all new, also those with the same time.
    const later = joined(first, append([], [line(3)], 5), 3);
    expect(later.map((one) => one.number)).toEqual([1, 4, 5, 6]);
    expect(joined(before, [], 3)).toEqual(before);
  });
});

describe('the page', () => {
  it('ignores figures that it has, which another stream sends again', () => {
    forget();
    accept(node);
    accept({ ...node, time: '2026-11-29T02:00:01Z', uptime_seconds: 3601 });
    accept({ ...node, time: '2026-11-29T02:00:01Z', uptime_seconds: 3601 });
    expect(rings.queries.lines(['ended']).values).toEqual([[0]]);
  });

  it('forgets what a user saw, and what the user searched for', () => {
    accept(node);
    lines.value = append([], [{ time: node.time, level: 'INFO', target: '', message: '', fields: {} }]);
    wanted.value = selected.value = { level: 'DEBUG', words: 'secret' };
    forget();
    expect([figures.value, lines.value, selected.value, wanted.value]).toEqual([
      null,
      [],
      null,
      initialSelection,
    ]);
  });
});

describe('events', () => {
  it('are read from pieces that end anywhere', () => {
    const parser = new EventParser();
    const text = ': keep\n\nevent: node\r\ndata: {"a":\ndata: 1}\n\ndata: x\n\n';
    const found = Array.from(text).flatMap((character) => parser.push(character));
    expect(found).toEqual([
      { name: 'node', data: '{"a":\n1}' },
      { name: 'message', data: 'x' },
    ]);
  });

  it('are requested again with growing pauses', () => {
    expect([0, 1, 2, 9].map(waitOf)).toEqual([1, 2, 4, 30]);
  });
});
