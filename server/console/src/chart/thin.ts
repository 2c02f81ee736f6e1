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
  // The neighbours outside are the ends of the lines that leave the picture.
  const start = Math.max(0, firstFrom(times, from) - 1);
  const end = Math.min(times.length, firstFrom(times, to) + 1);
  const count = end - start;
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
  const indexes: number[] = [];
  for (let at = 0; at < count; at++) if (chosen[at] === 1) indexes.push(start + at);
  return {
    times: indexes.map((index) => times[index] ?? 0),
    values: values.map((line) => indexes.map((index) => line[index])),
    indexes,
  };
}
