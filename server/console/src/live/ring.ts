/** The last samples of named values over one axis of times. Its memory does not grow. */
import type { Aligned } from '../chart/series';

/** Samples that are kept: ten minutes of one a second. */
export const capacity = 600;

/** Names that are kept; the one with the smallest mean makes room for another one. */
const mostNames = 120;

export class Ring {
  private next = 0;
  private count = 0;
  private readonly times = new Float64Array(capacity);
  private readonly rows = new Map<string, Float64Array>();

  /** Adds a sample; a value that is `null` or missing is a gap. Times ascend: an earlier one counts as 1 ms later. */
  push(time: number, values: ReadonlyMap<string, number | null>): void {
    const last = this.lastTime();
    this.times[this.next] = last === null ? time : Math.max(time, last + 1);
    for (const row of this.rows.values()) row[this.next] = NaN;
    for (const [name, value] of values) this.rowOf(name)[this.next] = value ?? NaN;
    this.next = (this.next + 1) % capacity;
    this.count = Math.min(this.count + 1, capacity);
  }

  lastTime(): number | null {
    return this.count === 0 ? null : (this.times[(this.next + capacity - 1) % capacity] ?? null);
  }

  /** Names by their mean over all samples, the largest first. */
  largest(most: number): string[] {
    return [...this.rows.keys()]
      .map((name) => ({ name, mean: this.mean(name) ?? -1 }))
      .sort((one, other) => other.mean - one.mean || one.name.localeCompare(other.name))
      .slice(0, most)
      .map(({ name }) => name);
  }

  /** The mean of the samples that have a value. */
  mean(name: string): number | null {
    let sum = 0;
    let found = 0;
    for (const value of this.rows.get(name) ?? []) {
      if (Number.isNaN(value)) continue;
      sum += value;
      found++;
    }
    return found === 0 ? null : sum / found;
  }

  latest(name: string): number | null {
    const value = this.rows.get(name)?.[(this.next + capacity - 1) % capacity];
    return value === undefined || Number.isNaN(value) ? null : value;
  }

  /** Lines as a plot draws them, from the oldest sample to the newest. */
  lines(names: readonly string[]): Aligned {
    const order = Array.from(
      { length: this.count },
      (_, index) => (this.next - this.count + index + capacity) % capacity,
    );
    return {
      times: order.map((at) => this.times[at] ?? 0),
      values: names.map((name) => {
        const row = this.rows.get(name);
        return order.map((at) => {
          const value = row?.[at];
          return value === undefined || Number.isNaN(value) ? null : value;
        });
      }),
    };
  }

  private rowOf(name: string): Float64Array {
    const known = this.rows.get(name);
    if (known) return known;
    if (this.rows.size >= mostNames) {
      const least = this.largest(mostNames).at(-1);
      if (least !== undefined) this.rows.delete(least);
    }
    const row = new Float64Array(capacity).fill(NaN);
    this.rows.set(name, row);
    return row;
  }
}
