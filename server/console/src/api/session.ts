/** Who is logged in. */
import { signal } from '@preact/signals';
import { ApiError } from './errors';
import { send, setCsrf } from './http';

export interface Session {
  user: string | null;
  admin: boolean;
  /** Whether the server requires credentials. */
  auth: boolean;
  csrf: string | null;
}

export type Credentials = { user: string; password: string } | { token: string };

/** `null` until the server has answered. */
export const session = signal<Session | null>(null);

const path = '/api/v1/session';
const open: Session = { user: null, admin: true, auth: false, csrf: null };

function begin(value: Session): void {
  setCsrf(value.csrf);
  session.value = value;
}

/** Asks the server; a server without sessions has no users. */
export async function loadSession(): Promise<void> {
  try {
    const response = await send(path);
    begin((await response.json()) as Session);
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 404) throw error;
    begin(open);
  }
}

export async function logIn(credentials: Credentials): Promise<void> {
  const response = await send(path, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(credentials),
  });
  begin((await response.json()) as Session);
}

export async function logOut(): Promise<void> {
  await send(path, { method: 'DELETE' });
  await loadSession();
}
