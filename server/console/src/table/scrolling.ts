/** The arithmetic of a long table in a browser, whose elements have a limited height. */
import type { Zone } from '../chart/instant';
import type { Result } from './result';

export const rowHeight = 26;

/** Browsers clip elements beyond 17 to 33 million pixels; a table stays well below. */
const most = 8_000_000;

export function scrollHeight(rowCount: number): number {
  return Math.min(rowCount * rowHeight, most);
}

/** The row at the upper edge of the view, with a fraction. */
export function rowAt(top: number, rowCount: number, height: number): number {
  const exact = rowCount * rowHeight;
  if (exact <= most) return top / rowHeight;
  const part = top / Math.max(1, most - height);
  return Math.min(1, part) * Math.max(0, rowCount - height / rowHeight);
}

/** The inverse of `rowAt`. */
export function scrollFor(row: number, rowCount: number, height: number): number {
  const exact = rowCount * rowHeight;
  if (exact <= most) return row * rowHeight;
  return (row / Math.max(1, rowCount - height / rowHeight)) * (most - height);
}

/** Widths of the columns in characters, from their names and the first rows. */
export function widths(result: Result, rowCount: number, zone: Zone): number[] {
  const sampled = Math.min(rowCount, 50);
  return result.columns.map((column, index) => {
    let longest = column.name.length + column.type.length + 1;
    for (let row = 0; row < sampled; row++) {
      longest = Math.max(longest, result.text(row, index, zone)?.length ?? 4);
    }
    return Math.max(8, Math.min(longest, 48)) + 3;
  });
}
