/** Numbers with units, for axes, legends and tables. */

export const unitNames = {
  none: 'No unit',
  percent: 'Percent (0–100)',
  ratio: 'Percent (0–1)',
  bytes: 'Bytes',
  rate: 'Bytes/s',
  seconds: 'Seconds',
  milliseconds: 'Milliseconds',
  celsius: 'Degrees Celsius',
  volts: 'Volts',
  watts: 'Watts',
} as const;

export type Unit = keyof typeof unitNames;

export function isUnit(text: string): text is Unit {
  return text in unitNames;
}

const thousands = ['', 'k', 'M', 'G', 'T', 'P'];
const binary = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

/** At most `digits` significant digits, without zeros at the end. */
function plain(value: number, digits: number): string {
  if (value === 0) return '0';
  const size = Math.abs(value);
  if (size < 1e-4 || size >= 1e15) return value.toExponential(2).replace(/\.?0+e/, 'e');
  const decimals = Math.max(0, Math.min(6, digits - 1 - Math.floor(Math.log10(size))));
  const text = value.toFixed(decimals);
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text;
}

function scaled(value: number, base: number, names: readonly string[], digits: number): string {
  let index = 0;
  let rest = value;
  while (Math.abs(rest) >= base && index < names.length - 1) {
    rest /= base;
    index++;
  }
  const name = names[index] ?? '';
  return name === ''
    ? plain(rest, digits)
    : `${plain(rest, digits)}${name.length > 1 || name === 'B' ? ' ' : ''}${name}`;
}

export function formatDuration(seconds: number, digits = 4): string {
  const size = Math.abs(seconds);
  if (size === 0) return '0 s';
  if (size < 1e-3) return `${plain(seconds * 1e6, digits)} µs`;
  if (size < 1) return `${plain(seconds * 1e3, digits)} ms`;
  if (size < 120) return `${plain(seconds, digits)} s`;
  if (size < 7_200) return `${plain(seconds / 60, digits)} min`;
  if (size < 172_800) return `${plain(seconds / 3_600, digits)} h`;
  return `${plain(seconds / 86_400, digits)} d`;
}

export function formatBytes(value: number): string {
  return scaled(value, 1024, binary, 4);
}

export function formatValue(value: number | null | undefined, unit: Unit, digits = 5): string {
  if (value === null || value === undefined || Number.isNaN(value)) return '–';
  switch (unit) {
    case 'none':
      return Math.abs(value) < 100_000 ? plain(value, digits) : scaled(value, 1000, thousands, digits);
    case 'percent':
      return `${plain(value, digits)} %`;
    case 'ratio':
      return `${plain(value * 100, digits)} %`;
    case 'bytes':
      return scaled(value, 1024, binary, digits);
    case 'rate':
      return `${scaled(value, 1024, binary, digits)}/s`;
    case 'seconds':
      return formatDuration(value, digits);
    case 'milliseconds':
      return formatDuration(value / 1000, digits);
    case 'celsius':
      return `${plain(value, digits)} °C`;
    case 'volts':
      return `${scaled(value, 1000, thousands, digits)} V`;
    case 'watts':
      return `${scaled(value, 1000, thousands, digits)} W`;
  }
}

/** A count with separators of thousands. */
export function formatCount(count: number): string {
  return String(count).replace(/\B(?=(\d{3})+$)/g, '\u202f');
}

/** `1 file`, `2 files`. */
export function counted(count: number, noun: string): string {
  return `${formatCount(count)} ${noun}${count === 1 ? '' : 's'}`;
}
