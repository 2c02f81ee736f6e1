/** Reads the text of EXPLAIN and EXPLAIN ANALYZE into a tree. */

export interface Level {
  name: 'manifests' | 'rollups' | 'rows';
  chunks: number;
  rows: number;
}

export interface PlanNode {
  name: string;
  /** The rest of the line, without metrics and levels. */
  detail: string;
  depth: number;
  /** Names and values as the server wrote them. */
  metrics: ReadonlyMap<string, string>;
  /** Seconds of computing in this node, over all threads; `null` without ANALYZE. */
  seconds: number | null;
  rows: number | null;
  requests: number | null;
  bytes: number | null;
  /** What answered: tag manifests, rollups or rows. */
  levels: Level[];
  children: PlanNode[];
}

const factors: Record<string, number> = {
  '': 1,
  K: 1e3,
  M: 1e6,
  B: 1,
  G: 1e9,
  T: 1e12,
  KB: 1024,
  MB: 1024 ** 2,
  GB: 1024 ** 3,
  TB: 1024 ** 4,
};

/** `881.8 K`, `8.3 KB`. */
export function parseQuantity(text: string): number | null {
  const [, digits, unit = ''] = /^([\d.]+)\s*([KMGTB]{0,2})/.exec(text) ?? [];
  const factor = factors[unit];
  return digits === undefined || factor === undefined ? null : Number(digits) * factor;
}

const times: Record<string, number> = { ns: 1e-9, µs: 1e-6, us: 1e-6, ms: 1e-3, s: 1, m: 60, h: 3600 };

/** `112.21ms`. */
export function parseSeconds(text: string): number | null {
  const [, digits, unit] = /^([\d.]+)(ns|µs|us|ms|s|m|h)$/.exec(text) ?? [];
  const factor = unit === undefined ? undefined : times[unit];
  return digits === undefined || factor === undefined ? null : Number(digits) * factor;
}

function levelsOf(text: string): Level[] {
  const names = { manifests: 'manifests', rollups: 'rollups', decoded: 'rows' } as const;
  return Object.entries(names).flatMap(([word, name]) => {
    const [, chunks, rows] = new RegExp(`\\b${word}=\\[chunks=(\\d+), rows=(\\d+)`).exec(text) ?? [];
    return chunks === undefined ? [] : [{ name, chunks: Number(chunks), rows: Number(rows) }];
  });
}

function metricsOf(text: string): Map<string, string> {
  const metrics = new Map<string, string>();
  for (const part of text.split(/, (?=[a-z_0-9]+=)/)) {
    const equals = part.indexOf('=');
    if (equals > 0) metrics.set(part.slice(0, equals), part.slice(equals + 1));
  }
  return metrics;
}

function nodeOf(line: string): PlanNode {
  const depth = Math.floor((line.length - line.trimStart().length) / 2);
  const [head = '', measured] = line.trim().split(/,? ?metrics=\[/);
  const metrics = metricsOf((measured ?? '').replace(/\]$/, ''));
  const [, name = head, rest = ''] = /^([A-Za-z_ ]+)[:,]? ?(.*)$/s.exec(head) ?? [];
  const detail = rest.replace(/,? ?(manifests|rollups|decoded)=\[[^\]]*\]/g, '');
  const quantity = (key: string) => parseQuantity(metrics.get(key) ?? '');
  return {
    name: name.trim(),
    detail,
    depth,
    metrics,
    seconds: parseSeconds(metrics.get('elapsed_compute') ?? ''),
    rows: quantity('output_rows'),
    requests: quantity('store_requests'),
    bytes: quantity('store_bytes'),
    levels: levelsOf(rest),
    children: [],
  };
}

/** The roots of a plan; one unless the text is none. */
export function parsePlan(text: string): PlanNode[] {
  const roots: PlanNode[] = [];
  const path: PlanNode[] = [];
  for (const line of text.split('\n')) {
    if (line.trim() === '') continue;
    const node = nodeOf(line);
    path.length = Math.min(path.length, node.depth);
    const parent = path.at(-1);
    (parent ? parent.children : roots).push(node);
    path.push(node);
  }
  return roots;
}

/** All nodes, parents before children. */
export function flatten(roots: readonly PlanNode[]): PlanNode[] {
  return roots.flatMap((node) => [node, ...flatten(node.children)]);
}

export interface Totals {
  requests: number;
  bytes: number;
  levels: Level[];
}

export function totalsOf(nodes: readonly PlanNode[]): Totals {
  const sum = (values: (number | null)[]) => values.reduce<number>((total, value) => total + (value ?? 0), 0);
  const names: Level['name'][] = ['manifests', 'rollups', 'rows'];
  const all = nodes.flatMap((node) => node.levels);
  return {
    requests: sum(nodes.map((node) => node.requests)),
    bytes: sum(nodes.map((node) => node.bytes)),
    levels: names.map((name) => {
      const of = all.filter((level) => level.name === name);
      return { name, chunks: sum(of.map((one) => one.chunks)), rows: sum(of.map((one) => one.rows)) };
    }),
  };
}
