/** `POST /api/v1/import`: a file becomes rows of a table. */
import { ApiError } from './errors';
import { csrfHeaders, errorFrom, refusals, send } from './http';

export const formats = ['csv', 'ndjson', 'line', 'parquet'] as const;

export type Format = (typeof formats)[number];

export const columnTypes = ['bool', 'int', 'double', 'text', 'timestamp'] as const;

/** `name`: the column that names the series. */
export type Role = 'tag' | 'field' | 'time' | 'name' | 'omitted';

export interface ImportOptions {
  database: string;
  /** Lines name their own tables. */
  table: string;
  format: Format;
  /** `null`: the server guesses. */
  tags: readonly string[] | null;
  time: string | null;
  /** The unit of numeric times. */
  precision: 'ns' | 'us' | 'ms' | 's';
  /** Texts that mean null. */
  nulls: readonly string[];
  /** Corrected types by column. */
  types: ReadonlyMap<string, string>;
  /** Columns that are not imported; their names have no outer spaces. */
  omitted: readonly string[];
  /** Whether rows may replace each other. */
  overwrite: boolean;
}

export interface PreviewColumn {
  name: string;
  role: Role;
  type: string;
  distinct: number | null;
  nulls: number | null;
  examples: string[];
  note: string | null;
}

export interface Preview {
  columns: PreviewColumn[];
  rows: (string | number | boolean | null)[][];
  rows_read: number;
  /** Rows that cannot be read; the notices describe the first ones. */
  rows_wrong: number;
  table_exists: boolean;
  statement: string | null;
  notices: string[];
  repeats: { rows: number; example: string; hint: string } | null;
}

export interface Imported {
  written: number;
  replaced: number;
  refused: number;
  notices: string[];
}

/** Bytes at the beginning of a text file that a preview reads; others must be whole. */
const previewBytes = 1 << 20;

/** A name without the ending of a compression, which the server undoes. */
function plainName(name: string): string {
  return name.replace(/\.(gz|zst)$/i, '');
}

/** The format that the name of a file says. */
export function formatOf(name: string): Format | null {
  const ending = /\.([a-z]+)$/i.exec(plainName(name))?.[1]?.toLowerCase() ?? '';
  if (ending === 'csv') return 'csv';
  if (['ndjson', 'jsonl', 'json'].includes(ending)) return 'ndjson';
  if (['lp', 'line', 'txt'].includes(ending)) return 'line';
  return ending === 'parquet' ? 'parquet' : null;
}

export function importPath(options: ImportOptions, preview: boolean): string {
  const { database, table, format, tags, time, precision, nulls, types, omitted, overwrite } = options;
  const parameters = new URLSearchParams({ db: database, format, precision });
  if (table !== '' && format !== 'line') parameters.set('table', table);
  const left = new Set(omitted);
  if (tags !== null) parameters.set('tags', tags.filter((name) => !left.has(name)).join(','));
  if (time !== null && !left.has(time)) parameters.set('time', time);
  for (const text of nulls) parameters.append('null', text);
  const typed = [...types].filter(([name]) => !left.has(name)).map((one) => one.join(':'));
  const given = [...typed, ...[...left].map((name) => `${name}:omit`)];
  if (given.length > 0) parameters.set('types', given.join(','));
  if (overwrite) parameters.set('overwrite', 'true');
  if (preview) parameters.set('preview', 'true');
  return `/api/v1/import?${parameters.toString()}`;
}

export async function preview(file: File, options: ImportOptions, signal: AbortSignal): Promise<Preview> {
  const whole = options.format === 'parquet' || plainName(file.name) !== file.name;
  const body = whole ? file : file.slice(0, previewBytes);
  const response = await send(importPath(options, true), {
    method: 'POST',
    headers: { 'content-type': 'application/octet-stream' },
    body,
    signal,
  });
  return (await response.json()) as Preview;
}

/** Sends the file. `XMLHttpRequest` reports how much of it was sent; `fetch` does not. */
export function upload(
  file: File,
  options: ImportOptions,
  onProgress: (fraction: number) => void,
  signal: AbortSignal,
): Promise<Imported> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open('POST', importPath(options, false));
    request.setRequestHeader('content-type', 'application/octet-stream');
    for (const [name, value] of Object.entries(csrfHeaders())) request.setRequestHeader(name, value);
    request.upload.onprogress = (event) => onProgress(event.total === 0 ? 1 : event.loaded / event.total);
    request.onload = () => {
      if (request.status === 401) refusals.value++;
      if (request.status === 200) resolve(JSON.parse(request.responseText) as Imported);
      else reject(errorFrom(request.status, request.responseText));
    };
    request.onerror = () => reject(new ApiError('network', 0, 'the server does not answer'));
    request.onabort = () => reject(new DOMException('cancelled', 'AbortError'));
    signal.addEventListener('abort', () => request.abort(), { once: true });
    request.send(file);
  });
}
