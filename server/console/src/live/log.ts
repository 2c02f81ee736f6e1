/** The newest lines of the log, and what is shown of them. */
import type { LogLine } from '../api/node';

export interface Line extends LogLine {
  /** Increases by one with each line. */
  number: number;
}

/** Lines that are kept. */
export const mostLines = 1000;

export const levels = ['ERROR', 'WARN', 'INFO', 'DEBUG', 'TRACE'] as const;

export type Level = (typeof levels)[number];

/** Lines of this level or a more severe one, with all of these words. */
export interface Selection {
  level: Level;
  words: string;
}

/** The selection until the user chooses another one. */
export const initialSelection: Selection = { level: 'INFO', words: '' };

export function isSame(one: Selection | null, other: Selection): boolean {
  return one?.level === other.level && one.words === other.words;
}

/** Appends lines, numbered, and forgets the oldest ones beyond `mostLines`. */
export function append(lines: readonly Line[], added: readonly LogLine[], last = lastNumber(lines)): Line[] {
  return [...lines, ...added.map((line, index) => ({ ...line, number: last + 1 + index }))].slice(-mostLines);
}

export function lastNumber(lines: readonly Line[]): number {
  return lines.at(-1)?.number ?? 0;
}

/** A new connection sends the last lines again: those that are known are left out. */
export function unknown(lines: readonly Line[], sent: readonly LogLine[]): LogLine[] {
  const newest = lines.at(-1)?.time;
  return newest === undefined ? [...sent] : sent.filter((line) => line.time > newest);
}

/**
 * Appends the lines of a stream with another selection. The lines with numbers up to `last` were there before it: those that are older
 * than its first line remain, since the stream sends the others again.
 */
export function joined(lines: readonly Line[], added: readonly Line[], last: number): Line[] {
  const first = added[0]?.time;
  const kept = first === undefined ? lines : lines.filter((line) => line.number > last || line.time < first);
  return [...kept, ...added].slice(-mostLines);
}

export function fieldsOf(line: LogLine): string {
  return Object.entries(line.fields)
    .map(([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`)
    .join(' ');
}

export function select(lines: readonly Line[], { level, words }: Selection): Line[] {
  const most = levels.indexOf(level);
  const wanted = words
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== '');
  return lines.filter((line) => {
    if (levels.findIndex((one) => one === line.level) > most) return false;
    if (wanted.length === 0) return true;
    const text = `${line.target} ${line.message} ${fieldsOf(line)}`.toLowerCase();
    return wanted.every((word) => text.includes(word));
  });
}
