/** Values of Arrow's types as text and as numbers. */
import { DataType, Precision, type Timestamp, type Vector } from 'apache-arrow';
import { formatTicks, type Zone } from '../chart/instant';
import type { ResultColumn } from './result';

type Description = Pick<ResultColumn, 'type' | 'kind'>;

const integers: Record<number, string> = { 8: 'TINYINT', 16: 'SMALLINT', 32: 'INT', 64: 'BIGINT' };

/** The name that Arrow gives to a type that SQL has no short word for. */
function nameOf(type: { toString: () => string }): string {
  return type.toString();
}

export function describe(type: DataType): Description {
  if (DataType.isDictionary(type)) return describe(type.dictionary as DataType);
  if (DataType.isInt(type)) return { type: integers[type.bitWidth] ?? 'INT', kind: 'number' };
  if (DataType.isFloat(type))
    return { type: type.precision === Precision.SINGLE ? 'FLOAT' : 'DOUBLE', kind: 'number' };
  if (DataType.isDecimal(type)) return { type: `DECIMAL(${type.precision}, ${type.scale})`, kind: 'number' };
  if (DataType.isTimestamp(type)) return { type: 'TIMESTAMP', kind: 'time' };
  if (DataType.isDate(type)) return { type: 'DATE', kind: 'time' };
  if (DataType.isBool(type)) return { type: 'BOOL', kind: 'boolean' };
  if (DataType.isUtf8(type) || DataType.isLargeUtf8(type)) return { type: 'VARCHAR', kind: 'text' };
  if (DataType.isBinary(type)) return { type: 'VARBINARY', kind: 'other' };
  return { type: nameOf(type), kind: 'other' };
}

/** The 64-bit integer of a timestamp with all its digits: `get` would round it to milliseconds. */
function ticksOf(vector: Vector<Timestamp>, index: number): bigint | null {
  if (!vector.isValid(index)) return null;
  const data = vector.data[0];
  const value: unknown = data?.values[index];
  return typeof value === 'bigint' ? value : null;
}

const perSecond = [1n, 1_000n, 1_000_000n, 1_000_000_000n];

/** Divides before it converts: nanoseconds of today have more digits than a number. */
export function millisecondsOf(ticks: bigint, unit: number): number {
  const second = perSecond[unit] ?? 1_000n;
  const whole = ticks / second;
  return Number(whole) * 1000 + (Number(ticks - whole * second) * 1000) / Number(second);
}

function decimalOf(words: Uint32Array, scale: number): string {
  let value = 0n;
  for (let index = words.length - 1; index >= 0; index--) value = (value << 32n) | BigInt(words[index] ?? 0);
  value = BigInt.asIntN(32 * words.length, value);
  const digits = String(value < 0n ? -value : value).padStart(scale + 1, '0');
  const whole = digits.slice(0, digits.length - scale);
  return `${value < 0n ? '-' : ''}${whole}${scale > 0 ? `.${digits.slice(-scale)}` : ''}`;
}

function plainText(value: unknown): string {
  if (typeof value === 'string') return value;
  if (typeof value === 'number' || typeof value === 'bigint' || typeof value === 'boolean')
    return String(value);
  if (value instanceof Uint8Array)
    return [...value].map((byte) => byte.toString(16).padStart(2, '0')).join('');
  return JSON.stringify(value, (_, inner: unknown) => (typeof inner === 'bigint' ? Number(inner) : inner));
}

export function textOf(vector: Vector, index: number, zone: Zone): string | null {
  const type: DataType = vector.type as DataType;
  if (DataType.isTimestamp(type)) {
    const ticks = ticksOf(vector as Vector<Timestamp>, index);
    return ticks === null ? null : formatTicks(ticks, type.unit, zone);
  }
  const value: unknown = vector.get(index);
  if (value === null || value === undefined) return null;
  if (DataType.isDate(type)) return new Date(Number(value)).toISOString().slice(0, 10);
  if (DataType.isDecimal(type)) return decimalOf(value as Uint32Array, type.scale);
  return plainText(value);
}

export function numberOf(vector: Vector, index: number): number | null {
  const type: DataType = vector.type as DataType;
  if (DataType.isTimestamp(type)) {
    const ticks = ticksOf(vector as Vector<Timestamp>, index);
    return ticks === null ? null : millisecondsOf(ticks, type.unit);
  }
  const value: unknown = vector.get(index);
  if (typeof value === 'number') return value;
  if (typeof value === 'bigint') return Number(value);
  if (typeof value === 'boolean') return value ? 1 : 0;
  if (value !== null && DataType.isDecimal(type)) return Number(textOf(vector, index, 'utc'));
  return null;
}
