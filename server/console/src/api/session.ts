/** Who is logged in. */
import { signal } from '@preact/signals';
import { ApiError } from './errors';
import { send, setCsrf } from './http';

export interface Session {
  user: string | null;
  admin: boolean;
  /** Whether the server requires credentials. */
  authentication: boolean;
  /** Sent with each request that changes something; `null` without a session. */
  csrf: string | null;
}

export type Credentials = { user: string; password: string } | { token: string };

/** `null` until the server has answered. */
export const session = signal<Session | null>(null);

const nobody: Session = { user: null, admin: false, authentication: true, csrf: null };

function begin(value: Session): void {
  setCsrf(value.csrf);
  session.value = value;
}

/** Asks the server for the user of this page. */
export async function loadSession(): Promise<void> {
  try {
    const response = await send('/api/v1/whoami');
    begin((await response.json()) as Session);
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 401) throw error;
    begin(nobody);
  }
}

/** The value of the header Authorization. */
export function authorization(credentials: Credentials): string {
  if ('token' in credentials) return `Bearer ${credentials.token}`;
  const bytes = new TextEncoder().encode(`${credentials.user}:${credentials.password}`);
  return `Basic ${btoa(String.fromCharCode(...bytes))}`;
}

/** Begins a session, whose token the browser keeps in a cookie that scripts cannot read. */
export async function logIn(credentials: Credentials): Promise<void> {
  const headers = { authorization: authorization(credentials) };
  const response = await send('/api/v1/login', { method: 'POST', headers });
  begin((await response.json()) as Session);
}

/** Whether the root has no users, and the server logged a code to create the first one. */
export async function awaitsFirstUser(): Promise<boolean> {
  const response = await send('/api/v1/first-user');
  return ((await response.json()) as { awaited: boolean }).awaited;
}

/** Creates the first user, an administrator, and begins a session. */
export async function createFirstUser(code: string, user: string, password: string): Promise<void> {
  const body = JSON.stringify({ code, user, password });
  await send('/api/v1/first-user', { method: 'POST', headers: { 'content-type': 'application/json' }, body });
  await logIn({ user, password });
}

export async function logOut(): Promise<void> {
  await send('/api/v1/logout', { method: 'POST' });
  await loadSession();
}
