import { describe, expect, it } from 'vitest';
import { boundsOf, rangeFor, rangeFromText, rangeToText } from './range';
import { align, isolated, summarise, type Values } from './series';
import { drawable, extremes, thin } from './thin';
import { formatCount, formatDuration, formatValue } from './units';
import { aligned, windowFor, windowOf, windowOfDense } from './window';

const minute = 60_000;

describe('windows', () => {
  it('are as wide as three pixels, in usual lengths', () => {
    expect(windowFor(86_400_000, 900).text).toBe('5m');
    expect(windowFor(3_600_000, 1_200).text).toBe('10s');
    expect(windowFor(1_000, 1_500).text).toBe('2a');
  });

  it('are whole buckets where reading the rows takes long', () => {
    const dense = { rows: 1e8, bucket: minute };
    expect(windowOfDense(10_000_000, 1_000, dense).text).toBe('1m');
    // Windows that are wider than a bucket stay as they are.
    expect(windowOfDense(86_400_000, 900, dense).text).toBe('5m');
    expect(windowOfDense(86_400_000, 900, { rows: 1e8, bucket: 60 * minute }).text).toBe('1h');
    // Few rows, few windows, no buckets: as narrow as the pixels.
    expect(windowOfDense(10_000_000, 1_000, { rows: 1e6, bucket: minute }).text).toBe('30s');
    expect(windowOfDense(10 * minute, 1_000, dense).text).toBe('2s');
    expect(windowOfDense(10_000_000, 1_000, { rows: 1e8, bucket: null }).text).toBe('30s');
  });

  it('are whole at both ends', () => {
    const window = windowOf('5m');
    if (!window) throw new Error('no such window');
    expect(aligned(7 * minute, 11 * minute, window)).toEqual({ from: 5 * minute, to: 15 * minute });
    expect(aligned(5 * minute, 10 * minute, window)).toEqual({ from: 5 * minute, to: 10 * minute });
  });
});

describe('ranges', () => {
  it('survive a link', () => {
    for (const range of [
      { kind: 'last', length: '6h' },
      { kind: 'between', from: 5, to: 9 },
    ] as const) {
      expect(rangeFromText(rangeToText(range))).toEqual(range);
    }
    expect(rangeFromText('9~5')).toBeNull();
  });

  it('show the newest data of a table', () => {
    const now = 1e12;
    expect(rangeFor({ first: now - 2 * 86_400_000, last: now - minute }, now)).toEqual({
      kind: 'last',
      length: '24h',
    });
    const old = rangeFor({ first: 0, last: 1e11 }, now);
    expect(boundsOf(old, now)).toEqual({ from: 1e11 - 86_400_000, to: 1e11 + 1 });
  });
});

describe('align', () => {
  const line = (name: string, times: number[]) => ({
    name,
    earlier: false,
    points: times.map((time) => ({ time: time * minute, value: time })),
  });

  it('interrupts a line where rows are missing, and only there', () => {
    const { times, values } = align([line('a', [0, 1, 2, 6, 7]), line('b', [0, 2, 4, 6])], minute);
    expect(times.map((time) => time / minute)).toEqual([0, 1, 2, 3, 4, 6, 7]);
    expect(values[0]).toEqual([0, 1, 2, null, undefined, 6, 7]);
    expect(values[1]).toEqual([0, undefined, 2, undefined, 4, 6, undefined]);
  });

  it('finds points without neighbours', () => {
    expect(isolated([1, null, 2, undefined, null, 3, 4])).toEqual([0, 2]);
  });

  it('summarises without gaps', () => {
    expect(summarise([1, null, undefined, 3])).toEqual({ min: 1, max: 3, mean: 2, last: 3 });
  });
});

describe('thin', () => {
  const count = 100_000;
  const times = Array.from({ length: count }, (_, at) => at * 10);
  // Noise with one peak and one gap.
  const noise: Values = times.map((_, at) => (at * 7919) % 101);
  noise[31_415] = 1000;
  noise[50_000] = null;
  const sparse: Values = times.map((_, at) => (at % 10 === 3 ? at : undefined));
  const data = { times, values: [noise, sparse] };

  it('keeps the extremes of each pixel, and the gaps', () => {
    const pixels = 500;
    const drawn = thin(data, 0, count * 10, pixels);
    expect(drawn.times.length).toBeLessThanOrEqual(2 * 5 * pixels);
    const byPixel = (instants: readonly number[], values: Values): number[][] => {
      const found: number[][] = Array.from({ length: pixels }, () => []);
      values.forEach((value, at) => {
        const pixel = Math.floor(((instants[at] ?? 0) * pixels) / (count * 10));
        if (value !== undefined && value !== null) found[pixel]?.push(value);
      });
      return found;
    };
    for (const [line, values] of data.values.entries()) {
      const all = byPixel(times, values);
      const drawnOf = byPixel(drawn.times, drawn.values[line] ?? []);
      for (let pixel = 0; pixel < pixels; pixel++) {
        const whole = all[pixel] ?? [];
        const left = drawnOf[pixel] ?? [];
        expect(summarise(left).min).toBe(summarise(whole).min);
        expect(summarise(left).max).toBe(summarise(whole).max);
        expect(left.at(-1)).toBe(whole.at(-1));
        expect(left[0]).toBe(whole[0]);
      }
    }
    expect(drawn.values[0]?.filter((value) => value === null)).toHaveLength(1);
    drawn.indexes?.forEach((index, at) => {
      expect(drawn.times[at]).toBe(times[index]);
      expect(drawn.values[0]?.[at]).toBe(noise[index]);
    });
  });

  it('draws every point of a short range, with the neighbours of each line on both sides', () => {
    const drawn = thin(data, 1000, 2000, 500);
    const indexes = [93, 99, ...Array.from({ length: 100 }, (_, at) => 100 + at), 200, 203];
    expect(drawn.indexes).toEqual(indexes);
    expect(drawn.times).toEqual(indexes.map((index) => index * 10));
    expect(drawn.values[1]).toEqual(indexes.map((index) => sparse[index]));
  });

  it('draws a line that crosses a range without a point in it', () => {
    const rare: Values = times.map((_, at) => (at === 0 ? 1 : at === count - 1 ? 2 : undefined));
    for (const [from, to] of [
      [1000, 2000],
      [1000, 500_000],
    ] as const) {
      const drawn = thin({ times, values: [noise, rare] }, from, to, 500);
      expect(drawn.values[1]?.filter((value) => value !== undefined)).toEqual([1, 2]);
      expect(drawn.times.at(-1)).toBe(times.at(-1));
    }
    // Beyond the last point there is none.
    expect(thin(data, 2_000_000, 3_000_000, 500).indexes).toEqual([99_993, 99_999]);
  });

  it('keeps the extremes among the values that the axis has', () => {
    const mixed: Values = times.map((_, at) =>
      at % 3 === 0 ? 0 : at % 3 === 1 ? NaN : 2 + ((at * 7919) % 101),
    );
    mixed[31_415] = 0.5;
    mixed[31_416] = 500;
    const whole = { times, values: [mixed] };
    const logarithmic = thin(drawable(whole, true), 0, count * 10, 500);
    expect(extremes(logarithmic.values)).toEqual({ min: 0.5, max: 500 });
    expect(logarithmic.times.length).toBeLessThanOrEqual(5 * 500);
    const linear = thin(drawable(whole, false), 0, count * 10, 500);
    expect(extremes(linear.values)).toEqual({ min: 0, max: 500 });
    expect(extremes([[null, undefined]])).toEqual({ min: null, max: null });
  });

  it('leaves small data as it is', () => {
    const small = { times: [1, 2], values: [[3, 4]] };
    expect(thin(small, 0, 10, 500)).toEqual({ ...small, indexes: null });
  });
});

describe('units', () => {
  it('format values', () => {
    expect(formatValue(0.5, 'ratio')).toBe('50 %');
    expect(formatValue(1536, 'bytes')).toBe('1.5 KiB');
    expect(formatValue(1_234_567, 'none')).toBe('1.2346M');
    expect(formatValue(null, 'none')).toBe('–');
    expect(formatDuration(0.00025)).toBe('250 µs');
    expect(formatCount(1_000_000)).toBe('1\u202f000\u202f000');
  });
});
