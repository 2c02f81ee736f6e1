/** Fewer points for the same picture: a chart of more points than pixels draws the extremes of each pixel. */
import type { Aligned, Values } from './series';

/** Points of a line in a pixel that decide what it looks like: the first, the lowest, the highest, the last, the last gap. */
const kept = 5;

/** What a plot draws: the times and values at some indexes of the whole data. */
export interface Thin extends Aligned {
  /** The index in the whole data of each drawn time; `null`: they are the same. */
  indexes: readonly number[] | null;
}

/** The first index whose time is at least `time`. */
function firstFrom(times: readonly number[], time: number): number {
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((times[middle] ?? 0) < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The values that an axis can show, as they are drawn: others are gaps. A logarithmic axis has no values up to 0. */
export function drawable({ times, values }: Aligned, log: boolean): Aligned {
  const fits = (value: Values[number]) =>
    value === null || value === undefined || (Number.isFinite(value) && (!log || value > 0));
  return {
    times,
    values: values.map((line) =>
      line.every(fits) ? line : line.map((value) => (fits(value) ? value : null)),
    ),
  };
}

/** The lowest and the highest value of all lines; `null` without values. */
export function extremes(values: readonly Values[]): { min: number | null; max: number | null } {
  let [min, max] = [Infinity, -Infinity];
  for (const line of values) {
    for (const value of line) {
      if (value === null || value === undefined) continue;
      if (value < min) min = value;
      if (value > max) max = value;
    }
  }
  return min > max ? { min: null, max: null } : { min, max };
}

/** The index of the last entry of a line before an index, or of the first from it on; `null` if there is none. */
function nearest(values: Values, index: number, step: -1 | 1): number | null {
  for (let at = step < 0 ? index - 1 : index; at >= 0 && at < values.length; at += step) {
    if (values[at] !== undefined) return at;
  }
  return null;
}

/** Marks the points of a line that its picture needs, from an index on; `places` has the pixel of each. */
function mark(chosen: Uint8Array, values: Values, start: number, places: Int32Array): void {
  let place: number | null = null;
  let [lowest, highest, last, gap] = [-1, -1, -1, -1];
  const finish = () => {
    for (const at of [lowest, highest, last, gap]) if (at >= 0) chosen[at] = 1;
  };
  for (let at = 0; at < places.length; at++) {
    const value = values[start + at];
    if (value === undefined) continue;
    if (places[at] !== place) {
      finish();
      place = places[at] ?? null;
      lowest = highest = last = gap = -1;
    }
    if (value === null) {
      gap = at;
      continue;
    }
    if (last < 0) chosen[at] = 1;
    if (last < 0 || value < (values[start + lowest] ?? 0)) lowest = at;
    if (last < 0 || value > (values[start + highest] ?? 0)) highest = at;
    last = at;
  }
  finish();
}

/** The points to draw between two instants on `pixels` pixels: all of them if they are few. */
export function thin(data: Aligned, from: number, to: number, pixels: number): Thin {
  const { times, values } = data;
  if (times.length <= kept * pixels) return { times, values, indexes: null };
  const start = firstFrom(times, from);
  const end = firstFrom(times, to);
  const count = Math.max(0, end - start);
  const all = count <= kept * pixels;
  const chosen = new Uint8Array(count).fill(all ? 1 : 0);
  if (!all) {
    const places = new Int32Array(count);
    const length = Math.max(to - from, 1);
    for (let at = 0; at < count; at++) {
      places[at] = Math.floor((((times[start + at] ?? 0) - from) * pixels) / length);
    }
    for (const line of values) mark(chosen, line, start, places);
  }
  // A line leaves the picture towards its own next point, which another line need not have.
  const outside = (index: number, step: -1 | 1) =>
    [...new Set(values.flatMap((line) => nearest(line, index, step) ?? []))].sort(
      (one, other) => one - other,
    );
  const indexes = outside(start, -1);
  for (let at = 0; at < count; at++) if (chosen[at] === 1) indexes.push(start + at);
  indexes.push(...outside(end, 1));
  return {
    times: indexes.map((index) => times[index] ?? 0),
    values: values.map((line) => indexes.map((index) => line[index])),
    indexes,
  };
}
