/** Windows of time: as wide as a few pixels, in lengths that people use. */

export interface Window {
  /** As in `INTERVAL(5m)`. */
  text: string;
  milliseconds: number;
}

const sizes: [string, number][] = [
  ['a', 1],
  ['s', 1_000],
  ['m', 60_000],
  ['h', 3_600_000],
  ['d', 86_400_000],
];

const steps: Record<string, number[]> = {
  a: [1, 2, 5, 10, 20, 50, 100, 200, 500],
  s: [1, 2, 5, 10, 15, 30],
  m: [1, 2, 5, 10, 15, 30],
  h: [1, 2, 3, 6, 12],
  d: [1, 7, 30],
};

export const windows: readonly Window[] = sizes.flatMap(([unit, size]) =>
  (steps[unit] ?? []).map((count) => ({ text: `${count}${unit}`, milliseconds: count * size })),
);

/** Pixels between two points of a line: nearer ones cannot be told apart. */
const pixels = 3;

/** The narrowest window that leaves `pixels` between two points of a chart of this width. */
export function windowFor(length: number, width: number): Window {
  const least = (length * pixels) / Math.max(width, 100);
  const fitting = windows.find((window) => window.milliseconds >= least) ?? windows.at(-1);
  if (fitting === undefined) throw new Error('there are windows');
  return fitting;
}

/** What a range of a table is read from. */
export interface Density {
  rows: number;
  /** Milliseconds of the buckets whose aggregates the server keeps beside most of the rows; `null` if there are none. */
  bucket: number | null;
}

/** Rows of a range beyond which reading them takes longer than a reader should wait. */
const manyRows = 2_000_000;

/** Windows below which a chart says too little. */
const fewWindows = 20;

/** As `windowFor`, but of whole buckets if the range has many rows and enough buckets. */
export function windowOfDense(length: number, width: number, { rows, bucket }: Density): Window {
  const narrowest = windowFor(length, width);
  if (bucket === null || rows <= manyRows || length < fewWindows * bucket) return narrowest;
  const whole = windows.find(
    (window) => window.milliseconds >= narrowest.milliseconds && window.milliseconds % bucket === 0,
  );
  return whole ?? narrowest;
}

export function windowOf(text: string): Window | null {
  return windows.find((window) => window.text === text) ?? null;
}

/** The bounds moved outwards to whole windows, so that the first and the last window are complete. */
export function aligned(from: number, to: number, window: Window): { from: number; to: number } {
  const size = window.milliseconds;
  return { from: Math.floor(from / size) * size, to: Math.ceil(to / size) * size };
}
