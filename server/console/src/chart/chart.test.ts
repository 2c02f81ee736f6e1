import { describe, expect, it } from 'vitest';
import { boundsOf, rangeFor, rangeFromText, rangeToText } from './range';
import { align, isolated, summarise } from './series';
import { formatCount, formatDuration, formatValue } from './units';
import { aligned, windowFor, windowOf } from './window';

const minute = 60_000;

describe('windows', () => {
  it('are as wide as three pixels, in usual lengths', () => {
    expect(windowFor(86_400_000, 900).text).toBe('5m');
    expect(windowFor(3_600_000, 1_200).text).toBe('10s');
    expect(windowFor(1_000, 1_500).text).toBe('2a');
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
