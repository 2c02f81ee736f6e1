/** Ranges of time: the last n units until now, or from one instant to another one. */

export type Range = { kind: 'last'; length: string } | { kind: 'between'; from: number; to: number };

/** Milliseconds of the units in a length such as `90m`. */
const units: Record<string, number> = {
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
};

export const relative = ['5m', '15m', '1h', '3h', '6h', '12h', '24h', '2d', '7d', '30d', '90d', '365d'];

/** Milliseconds of a length; `null` if the text is none. */
export function lengthOf(text: string): number | null {
  const [, count, unit] = /^(\d{1,6})([smhdw])$/.exec(text.trim()) ?? [];
  const factor = unit === undefined ? undefined : units[unit];
  if (count === undefined || factor === undefined) return null;
  const length = Number(count) * factor;
  return length > 0 ? length : null;
}

/** The instants of a range, in milliseconds. */
export function boundsOf(range: Range, now: number): { from: number; to: number } {
  if (range.kind === 'between') return { from: range.from, to: range.to };
  return { from: now - (lengthOf(range.length) ?? 3_600_000), to: now };
}

/** `last=6h`, or `from=…&to=…` in milliseconds, as they are in a link. */
export function rangeToText(range: Range): string {
  return range.kind === 'last' ? range.length : `${range.from}~${range.to}`;
}

export function rangeFromText(text: string): Range | null {
  if (lengthOf(text) !== null) return { kind: 'last', length: text };
  const [from, to] = text.split('~').map(Number);
  if (from === undefined || to === undefined || !(to > from)) return null;
  return { kind: 'between', from, to };
}

/** The shortest relative range that shows the newest data, else the day that ends with it. */
export function rangeFor(extent: { first: number; last: number }, now: number): Range {
  const day = 86_400_000;
  if (extent.last > now - day && extent.last <= now + day) {
    const length = now - extent.first < 3_600_000 ? '1h' : now - extent.first < 6 * 3_600_000 ? '6h' : '24h';
    return { kind: 'last', length };
  }
  const from = Math.max(extent.first, extent.last - day);
  return { kind: 'between', from, to: Math.max(extent.last, from) + 1 };
}

/** The range with `factor` times the length around the same middle. */
export function scaled(range: Range, factor: number, now: number): Range {
  const { from, to } = boundsOf(range, now);
  const middle = (from + to) / 2;
  const half = Math.max(((to - from) / 2) * factor, 1);
  return { kind: 'between', from: Math.round(middle - half), to: Math.round(middle + half) };
}

/** The range moved by `fraction` of its length. */
export function moved(range: Range, fraction: number, now: number): Range {
  const { from, to } = boundsOf(range, now);
  const step = Math.round((to - from) * fraction);
  return { kind: 'between', from: from + step, to: to + step };
}
