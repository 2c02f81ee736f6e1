import { describe, expect, it } from 'vitest';
import { formatOf, importPath, type ImportOptions, type PreviewColumn } from '../api/import';
import type { Column } from '../catalog/catalog';
import { corrected, isListable, namesOf } from './corrections';
import { bandsOf, levelOf, mostLanes, type Box } from './files';
import {
  addColumn,
  conditionsFromText,
  conditionsToText,
  createTable,
  deleteStatement,
  dropDatabase,
  keepDatabase,
  keepTable,
  renameColumn,
  whereOf,
  type TagCondition,
} from './statements';
import { durationOf, isShorter } from './table';

const columns: Column[] = [
  { name: 'ts', type: 'TIMESTAMP', role: 'time' },
  { name: 'usage', type: 'DOUBLE', role: 'field' },
  { name: 'Host', type: 'NCHAR', role: 'tag' },
  { name: 'rack', type: 'INT', role: 'tag' },
];

describe('statements', () => {
  it('define tables, with quoted names', () => {
    const made = {
      database: 'home',
      table: 'Climate',
      time: 'ts',
      fields: [{ name: 'temperature', type: 'double' }],
      tags: [{ name: 'order', type: 'varchar(20)' }],
      keep: '30d',
    };
    expect(createTable(made)?.sql).toBe(
      'CREATE STABLE home.`Climate` (ts TIMESTAMP, temperature DOUBLE) TAGS (`order` VARCHAR(20)) KEEP 30d',
    );
    expect(createTable({ ...made, fields: [] })).toBeNull();
    expect(createTable({ ...made, fields: [{ name: 'x', type: 'INT); DROP' }] })).toBeNull();
    expect(createTable({ ...made, keep: '1 year' })).toBeNull();
  });

  it('change tables', () => {
    expect(addColumn('home', 't', 'TAG', { name: 'site', type: 'VARCHAR(10)' })?.sql).toBe(
      'ALTER STABLE home.t ADD TAG site VARCHAR(10)',
    );
    expect(keepTable('home', 't', '720h')?.sql).toBe('ALTER STABLE home.t KEEP 720h');
    expect(keepTable('home', 't', '')).toBeNull();
    const usage: Column = { name: 'usage', type: 'DOUBLE', role: 'field' };
    expect(renameColumn('home', 't', usage, 'New')?.sql).toBe(
      'ALTER STABLE home.t RENAME COLUMN usage TO `New`',
    );
    expect(renameColumn('home', 't', usage, 'usage')).toBeNull();
    expect(keepDatabase('Home', '30d')?.sql).toBe('ALTER DATABASE `Home` KEEP 30d');
    expect(keepDatabase('home', '')).toBeNull();
    expect(dropDatabase('home').sql).toBe('DROP DATABASE home');
  });

  it('delete what the count counted, with literals by their types', () => {
    const where = whereOf(
      {
        from: '2026-01-01T00:00:00.000Z',
        until: '',
        tags: [
          { tag: 'Host', operator: '=', value: "it's" },
          { tag: 'rack', operator: '<>', value: '7' },
          { tag: 'rack', operator: 'LIKE', value: '7%' },
        ],
      },
      columns,
    );
    expect(where).toBe(
      " WHERE ts >= '2026-01-01T00:00:00.000Z' AND `Host` = 'it''s' AND rack <> 7 AND rack LIKE '7%'",
    );
    expect(deleteStatement('home', 't', where).sql).toBe(`DELETE FROM home.t${where}`);
    expect(whereOf({ from: '', until: '', tags: [] }, columns)).toBe('');
  });
});

it('conditions survive a link', () => {
  const conditions: TagCondition[] = [{ tag: 'Host', operator: 'LIKE', value: '"&%' }];
  expect(conditionsFromText(conditionsToText(conditions))).toEqual(conditions);
  expect(conditionsToText([])).toBe('');
  for (const text of ['', 'x', '{}', '[["a","OR","b"]]', '[1]']) expect(conditionsFromText(text)).toEqual([]);
});

describe('files', () => {
  const box = (from: number, to: number, level = 0): Box => ({
    from,
    to,
    level,
    files: 1,
    rows: 1,
    bytes: 1,
  });

  it('have the level of their size', () => {
    expect([0, 16_383, 16_384, 131_072, 2 ** 40].map(levelOf)).toEqual([0, 0, 1, 2, 6]);
  });

  it('that overlap are below each other', () => {
    const bands = bandsOf([box(0, 10), box(5, 15), box(11, 20), box(0, 20, 3)]);
    expect(bands.map((band) => [band.level, band.lanes])).toEqual([
      [0, 2],
      [3, 1],
    ]);
    expect(bands[0]?.boxes.map((one) => one.lane)).toEqual([0, 1, 0]);
  });

  it('share the last lane beyond a bound', () => {
    const many = Array.from({ length: 100 }, (_, index) => box(index, 1000));
    expect(bandsOf(many)[0]?.lanes).toBe(mostLanes);
  });

  it('are in partitions of a length', () => {
    expect(durationOf('10d')).toBe(864_000_000);
    expect(durationOf('1h')).toBe(3_600_000);
    expect(durationOf('x')).toBe(0);
  });
});

it('a retention is shorter than a longer one, and than one that cannot be read', () => {
  const shorter = (now: string) =>
    ['30h', '1d', '36h', '2160m', '2d', '', 'x'].filter((next) => isShorter(now, next));
  expect(shorter('2160m')).toEqual(['30h', '1d']);
  expect(shorter('1d')).toEqual([]);
  expect(shorter('1 month')).toEqual(['30h', '1d', '36h', '2160m', '2d']);
});

describe('imports', () => {
  const options: ImportOptions = {
    database: 'home',
    table: 'fleet',
    format: 'csv',
    tags: null,
    time: null,
    precision: 'ns',
    nulls: [],
    types: new Map(),
    omitted: [],
    overwrite: false,
  };

  it('send only what was corrected', () => {
    expect(importPath(options, true)).toBe(
      '/api/v1/import?db=home&format=csv&precision=ns&table=fleet&preview=true',
    );
    const path = importPath(
      { ...options, tags: [], time: 'at', nulls: ['N/A'], types: new Map([['x', 'int']]), overwrite: true },
      false,
    );
    expect(Object.fromEntries(new URLSearchParams(path.split('?')[1]))).toMatchObject({
      tags: '',
      time: 'at',
      null: 'N/A',
      types: 'x:int',
      overwrite: 'true',
    });
    expect(importPath({ ...options, format: 'line' }, false)).not.toContain('table=');
    const omitting = importPath(
      {
        ...options,
        tags: ['host', 'y'],
        time: 'x',
        types: new Map([
          ['x', 'int'],
          ['z', 'double'],
        ]),
        omitted: ['x', 'y'],
      },
      false,
    );
    const parameters = new URLSearchParams(omitting.split('?')[1]);
    expect(parameters.get('types')).toBe('z:double,x:omit,y:omit');
    expect(parameters.get('tags')).toBe('host');
    expect(parameters.has('time')).toBe(false);
  });

  it('omit columns by their trimmed names', () => {
    expect(namesOf(' a ,b,, a,c d ')).toEqual(['a', 'b', 'c d']);
    expect(namesOf('')).toEqual([]);
    expect(['a', 'c d', '', ' a', 'a,b'].map(isListable)).toEqual([true, true, false, false, false]);
  });

  it('take the format from the name of the file', () => {
    expect(['a.CSV.gz', 'b.jsonl', 'c.lp', 'd.parquet', 'e.xlsx'].map(formatOf)).toEqual([
      'csv',
      'ndjson',
      'line',
      'parquet',
      null,
    ]);
  });

  it('change tags and time with the role of a column', () => {
    const column = (name: string, role: PreviewColumn['role']): PreviewColumn => ({
      name,
      role,
      type: 'text',
      distinct: null,
      nulls: null,
      examples: [],
      note: null,
    });
    const all = [column('ts', 'time'), column('host', 'tag'), column('rack', 'field')];
    const none = { time: null, omitted: [] };
    expect(corrected(all, none, 'rack', 'tag')).toEqual({ ...none, tags: ['host', 'rack'] });
    expect(corrected(all, none, 'host', 'field')).toEqual({ ...none, tags: [] });
    expect(corrected(all, none, 'rack', 'time')).toEqual({ ...none, tags: ['host'], time: 'rack' });
    const omitted = corrected(all, { time: 'host', omitted: ['x'] }, 'host', 'omitted');
    expect(omitted).toEqual({ tags: [], time: null, omitted: ['x', 'host'] });
    expect(corrected(all, omitted, 'host', 'tag')).toEqual({ tags: ['host'], time: null, omitted: ['x'] });
    // A list of tags cannot have this name.
    expect(corrected([...all, column('a,b', 'tag')], none, 'rack', 'tag').tags).toEqual(['host', 'rack']);
  });
});
