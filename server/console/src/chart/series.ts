/** From rows of (time, key, value) to lines over one axis of times. */

export interface Point {
  /** Milliseconds. */
  time: number;
  value: number | null;
}

export interface Line {
  name: string;
  points: Point[];
  /** Whether the line is of the period that the chart is compared with. */
  earlier: boolean;
}

/** `null` ends a line; at `undefined` the line has no point, and continues. */
export type Values = (number | null | undefined)[];

export interface Aligned {
  times: number[];
  values: Values[];
}

/** The distance of points beyond which there is a gap: half as much again as is usual, and more than a window. */
function gapOf(points: readonly Point[], window: number): number {
  const steps: number[] = [];
  for (let index = 1; index < points.length; index++) {
    steps.push((points[index]?.time ?? 0) - (points[index - 1]?.time ?? 0));
  }
  steps.sort((one, other) => one - other);
  const usual = steps[Math.floor(steps.length / 2)] ?? window;
  return Math.max(usual, window) * 1.5;
}

/** Puts lines over one axis. A line is interrupted where windows without rows follow each other unusually long. */
export function align(lines: readonly Line[], window: number): Aligned {
  const sorted = lines.map((line) =>
    line.points.filter((point) => point.value !== null).sort((one, other) => one.time - other.time),
  );
  const all = new Set<number>();
  const gaps = sorted.map((points) => {
    const limit = gapOf(points, window);
    const found: number[] = [];
    points.forEach((point, index) => {
      all.add(point.time);
      const next = points[index + 1];
      if (next !== undefined && next.time - point.time > limit) found.push(point.time + window);
    });
    return found;
  });
  for (const found of gaps) for (const time of found) all.add(time);
  const times = [...all].sort((one, other) => one - other);
  const place = new Map(times.map((time, index) => [time, index]));
  const values = sorted.map((points, line) => {
    const row: Values = new Array<number | null | undefined>(times.length).fill(undefined);
    for (const time of gaps[line] ?? []) row[place.get(time) ?? 0] = null;
    for (const point of points) row[place.get(point.time) ?? 0] = point.value;
    return row;
  });
  return { times, values };
}

export interface Summary {
  min: number | null;
  max: number | null;
  mean: number | null;
  last: number | null;
}

export function summarise(values: Values): Summary {
  let min = Infinity;
  let max = -Infinity;
  let sum = 0;
  let count = 0;
  let last: number | null = null;
  for (const value of values) {
    if (value === null || value === undefined) continue;
    min = Math.min(min, value);
    max = Math.max(max, value);
    sum += value;
    count++;
    last = value;
  }
  if (count === 0) return { min: null, max: null, mean: null, last: null };
  return { min, max, mean: sum / count, last };
}

/** Indexes of values without a neighbour on their line, which a line alone would not show. */
export function isolated(values: Values): number[] {
  const present = values.flatMap((value, index) => (value === undefined ? [] : [index]));
  return present.filter((index, at) => {
    if (values[index] === null) return false;
    const before = present[at - 1];
    const after = present[at + 1];
    const open = (other: number | undefined) => other === undefined || values[other] === null;
    return open(before) && open(after);
  });
}

/** Points as they are in a table: one row a time, one column a line; gaps are empty. */
export function matrix(aligned: Aligned): { time: number; values: (number | null)[] }[] {
  return aligned.times.flatMap((time, index) => {
    const values = aligned.values.map((row) => row[index] ?? null);
    return values.some((value) => value !== null) ? [{ time, values }] : [];
  });
}
