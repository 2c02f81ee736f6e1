/** Instants as text, in UTC or in the browser's zone. */
import { signal } from '@preact/signals';

export type Zone = 'utc' | 'local';

const stored = typeof localStorage === 'undefined' ? null : localStorage.getItem('tidelake.zone');

export const zone = signal<Zone>(stored === 'local' ? 'local' : 'utc');

export function setZone(value: Zone): void {
  zone.value = value;
  localStorage.setItem('tidelake.zone', value);
}

function two(value: number): string {
  return String(value).padStart(2, '0');
}

export interface Parts {
  date: string;
  time: string;
  fraction: number;
}

export function partsOf(milliseconds: number, where: Zone): Parts {
  const at = new Date(milliseconds);
  const utc = where === 'utc';
  const year = utc ? at.getUTCFullYear() : at.getFullYear();
  const month = (utc ? at.getUTCMonth() : at.getMonth()) + 1;
  const day = utc ? at.getUTCDate() : at.getDate();
  const hour = utc ? at.getUTCHours() : at.getHours();
  const minute = utc ? at.getUTCMinutes() : at.getMinutes();
  const second = utc ? at.getUTCSeconds() : at.getSeconds();
  return {
    date: `${String(year).padStart(4, '0')}-${two(month)}-${two(day)}`,
    time: `${two(hour)}:${two(minute)}:${two(second)}`,
    fraction: at.getUTCMilliseconds(),
  };
}

/** `2026-01-01 08:00:00`, with milliseconds if there are any. */
export function formatInstant(milliseconds: number, where: Zone): string {
  const { date, time, fraction } = partsOf(milliseconds, where);
  return `${date} ${time}${fraction === 0 ? '' : `.${String(fraction).padStart(3, '0')}`}`;
}

/** Digits after the second of each unit of Arrow's timestamps: seconds, milliseconds, microseconds, nanoseconds. */
const digits = [0, 3, 6, 9];

/** Ticks of any unit with all their digits; instants that no calendar of the browser has, as a number. */
export function formatTicks(ticks: bigint, unit: number, where: Zone): string {
  const places = digits[unit] ?? 3;
  const second = 10n ** BigInt(places);
  const fraction = ((ticks % second) + second) % second;
  const milliseconds = Number((ticks - fraction) / second) * 1000;
  if (Math.abs(milliseconds) > 8.64e15) return String(ticks);
  const { date, time } = partsOf(milliseconds, where);
  return `${date} ${time}${places === 0 ? '' : `.${String(fraction).padStart(places, '0')}`}`;
}

/** Reads `2026-01-01`, `2026-01-01 08:00`, with seconds and a zone if they are given; `null` if it is none. */
export function parseInstant(text: string, where: Zone): number | null {
  const match =
    /^(\d{4}-\d{2}-\d{2})(?:[ T](\d{2}:\d{2}(?::\d{2}(?:\.\d{1,3})?)?))?(Z|[+-]\d{2}:\d{2})?$/.exec(
      text.trim(),
    );
  if (match === null) return null;
  const [, date = '', time = '00:00', offset] = match;
  const value = Date.parse(`${date}T${time}${offset ?? (where === 'utc' ? 'Z' : '')}`);
  return Number.isNaN(value) ? null : value;
}
