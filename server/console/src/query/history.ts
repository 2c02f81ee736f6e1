/** Statements that were run, in the browser's storage. */
import { signal } from '@preact/signals';

export interface Entry {
  sql: string;
  database: string;
  /** Milliseconds since 1970. */
  at: number;
  milliseconds: number;
  rows: number | null;
  failed: boolean;
}

const key = 'tidelake.history';
const kept = 200;

function load(): Entry[] {
  try {
    const value: unknown = JSON.parse(localStorage.getItem(key) ?? '[]');
    return Array.isArray(value) ? (value as Entry[]) : [];
  } catch {
    return [];
  }
}

export const history = signal<Entry[]>(load());

/** Adds an entry in front of the others; the same statement is kept once. */
export function remember(entry: Entry): void {
  const others = history.value.filter((old) => old.sql !== entry.sql || old.database !== entry.database);
  store([entry, ...others].slice(0, kept));
}

export function clearHistory(): void {
  store([]);
}

function store(entries: Entry[]): void {
  history.value = entries;
  try {
    localStorage.setItem(key, JSON.stringify(entries));
  } catch {
    // The storage is full or not allowed: the history is lost with the page.
  }
}
