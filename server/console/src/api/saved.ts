/** Saved queries of the user, which the root keeps. */
import { send } from './http';

export interface SavedQuery {
  name: string;
  statement: string;
  database: string | null;
  owner: string | null;
  /** RFC 3339. */
  updated: string;
  etag: string;
}

const path = '/api/v1/saved-queries';

function pathOf(name: string): string {
  return `${path}/${encodeURIComponent(name)}`;
}

export async function listSaved(signal?: AbortSignal): Promise<SavedQuery[]> {
  const response = await send(path, signal ? { signal } : {});
  return ((await response.json()) as { queries: SavedQuery[] }).queries;
}

/** Creates a query, or replaces the state of one that `etag` names; refuses where another one has the name. */
export async function putSaved(
  name: string,
  statement: string,
  database: string,
  etag: string | null,
): Promise<SavedQuery> {
  const response = await send(pathOf(name), {
    method: 'PUT',
    headers: {
      'content-type': 'application/json',
      ...(etag === null ? { 'if-none-match': '*' } : { 'if-match': etag }),
    },
    body: JSON.stringify({ statement, database: database === '' ? null : database }),
  });
  return (await response.json()) as SavedQuery;
}

export async function deleteSaved(query: SavedQuery): Promise<void> {
  await send(pathOf(query.name), { method: 'DELETE', headers: { 'if-match': query.etag } });
}
