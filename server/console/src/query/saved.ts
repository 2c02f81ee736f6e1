/** The saved queries of the user, as last loaded, and changes of them. */
import { signal } from '@preact/signals';
import { toApiError, type ApiError } from '../api/errors';
import { deleteSaved, listSaved, putSaved, type SavedQuery } from '../api/saved';

/** `null` until they are loaded. */
export const saved = signal<readonly SavedQuery[] | null>(null);
export const savedError = signal<ApiError | null>(null);
/** The name of the saved query that the editor shows or showed; empty for none. */
export const opened = signal('');

export type SavedAction =
  | { kind: 'save'; statement: string; database: string; name: string }
  | { kind: 'rename' | 'delete'; query: SavedQuery };

/** What a dialog asks about. */
export const action = signal<SavedAction | null>(null);

export function askToSave(text: string, database: string): void {
  const statement = text.trim();
  if (statement !== '') action.value = { kind: 'save', statement, database, name: opened.value };
}

export async function loadSaved(): Promise<void> {
  try {
    saved.value = await listSaved();
    savedError.value = null;
  } catch (thrown) {
    savedError.value = toApiError(thrown);
  }
}

function replace(gone: string, added: SavedQuery | null): void {
  const others = (saved.value ?? []).filter((one) => one.name !== gone && one.name !== added?.name);
  const all = added ? [...others, added] : others;
  saved.value = all.sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** Saves a statement; `replaced` is the query whose place it takes, as it was loaded. */
export async function save(
  name: string,
  statement: string,
  database: string,
  replaced: SavedQuery | undefined,
): Promise<SavedQuery> {
  const done = await putSaved(name, statement, database, replaced?.etag ?? null);
  replace(name, done);
  return done;
}

/** Saves under the new name first: a failure in between leaves both names, and loses nothing. */
export async function rename(query: SavedQuery, name: string): Promise<SavedQuery> {
  const done = await putSaved(name, query.statement, query.database ?? '', null);
  replace(name, done);
  await deleteSaved(query);
  replace(query.name, null);
  return done;
}

export async function remove(query: SavedQuery): Promise<void> {
  await deleteSaved(query);
  replace(query.name, null);
}
