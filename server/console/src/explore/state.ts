/** What Explore shows. It is all in the link, so that a link shows the same chart elsewhere. */
import { isUnit, type Unit } from '../chart/units';
import { rangeFromText, rangeToText, type Range } from '../chart/range';

export const aggregates = [
  'avg',
  'min',
  'max',
  'sum',
  'count',
  'first',
  'last',
  'spread',
  'stddev',
  'p50',
  'p95',
  'p99',
] as const;

export type Aggregate = (typeof aggregates)[number];

export interface Filter {
  tag: string;
  values: string[];
}

export interface View {
  database: string;
  table: string;
  fields: string[];
  aggregate: Aggregate;
  /** The tag that gives each of its values a line, or `null`. */
  group: string | null;
  /** The number of lines of a group, the largest first. */
  top: number;
  filters: Filter[];
  range: Range;
  /** A window as in `INTERVAL(5m)`; `auto` is from the pixels. */
  window: string;
  unit: Unit;
  log: boolean;
  /** Whether the day before is shown beside it. */
  compare: boolean;
  /** Seconds between two automatic repetitions; 0 is never. */
  refresh: number;
}

export const initial: View = {
  database: '',
  table: '',
  fields: [],
  aggregate: 'avg',
  group: null,
  top: 10,
  filters: [],
  range: { kind: 'last', length: '1h' },
  window: 'auto',
  unit: 'none',
  log: false,
  compare: false,
  refresh: 0,
};

export function toParameters(view: View): URLSearchParams {
  const parameters = new URLSearchParams();
  if (view.table === '') return parameters;
  parameters.set('db', view.database);
  parameters.set('table', view.table);
  for (const field of view.fields) parameters.append('field', field);
  parameters.set('agg', view.aggregate);
  if (view.group !== null) parameters.set('by', view.group);
  if (view.top !== initial.top) parameters.set('top', String(view.top));
  for (const { tag, values } of view.filters) {
    for (const value of values) parameters.append(`tag.${tag}`, value);
  }
  parameters.set('range', rangeToText(view.range));
  if (view.window !== 'auto') parameters.set('window', view.window);
  if (view.unit !== 'none') parameters.set('unit', view.unit);
  if (view.log) parameters.set('log', '1');
  if (view.compare) parameters.set('compare', '1d');
  if (view.refresh > 0) parameters.set('refresh', String(view.refresh));
  return parameters;
}

export function fromParameters(parameters: URLSearchParams): View {
  const filters = new Map<string, string[]>();
  for (const [name, value] of parameters) {
    if (!name.startsWith('tag.')) continue;
    const tag = name.slice(4);
    filters.set(tag, [...(filters.get(tag) ?? []), value]);
  }
  const unit = parameters.get('unit') ?? 'none';
  const aggregate = aggregates.find((name) => name === parameters.get('agg'));
  return {
    database: parameters.get('db') ?? '',
    table: parameters.get('table') ?? '',
    fields: parameters.getAll('field'),
    aggregate: aggregate ?? initial.aggregate,
    group: parameters.get('by'),
    top: Number(parameters.get('top') ?? initial.top) || initial.top,
    filters: [...filters].map(([tag, values]) => ({ tag, values })),
    range: rangeFromText(parameters.get('range') ?? '') ?? initial.range,
    window: parameters.get('window') ?? 'auto',
    unit: isUnit(unit) ? unit : 'none',
    log: parameters.get('log') === '1',
    compare: parameters.has('compare'),
    refresh: Number(parameters.get('refresh') ?? 0) || 0,
  };
}
