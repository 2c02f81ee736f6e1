/** Requests to the server, with the user's session, and errors as values of one type. */
import { signal } from '@preact/signals';
import { ApiError, isAbort, type ErrorKind } from './errors';

/** Sent with every request other than GET: without it a cookie is not accepted. */
let csrf: string | null = null;

/** Increases when the server refuses a request because nobody is logged in. */
export const refusals = signal(0);

export function setCsrf(value: string | null): void {
  csrf = value;
}

interface ErrorBody {
  error?: { kind?: ErrorKind; message?: string } | string;
  message?: string;
}

/** The error in the body of an answer with a status of 400 or more. */
export function errorFrom(status: number, text: string): ApiError {
  let body: ErrorBody = {};
  try {
    body = JSON.parse(text) as ErrorBody;
  } catch {
    // Not JSON: a proxy in between answered.
  }
  const error = typeof body.error === 'object' ? body.error : undefined;
  const kind = error?.kind ?? kindOf(status);
  const words = typeof body.error === 'string' ? body.error : (error?.message ?? body.message);
  return new ApiError(kind, status, words ?? `the server answered with status ${status}`);
}

function kindOf(status: number): ErrorKind {
  if (status === 401) return 'unauthenticated';
  if (status === 403) return 'forbidden';
  if (status === 404) return 'not_found';
  if (status === 503) return 'unavailable';
  return status < 500 ? 'invalid' : 'internal';
}

/** Headers that a request which changes something needs beside the cookie. */
export function csrfHeaders(): Record<string, string> {
  return csrf === null ? {} : { 'x-tidelake-csrf': csrf };
}

/** Sends a request; an answer with a status of 400 or more is thrown as an `ApiError`. */
export async function send(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  if ((init.method ?? 'GET') !== 'GET') {
    for (const [name, value] of Object.entries(csrfHeaders())) headers.set(name, value);
  }
  let response: Response;
  try {
    response = await fetch(path, { ...init, headers, credentials: 'same-origin', cache: 'no-store' });
  } catch (error) {
    if (isAbort(error)) throw error;
    throw new ApiError('network', 0, 'the server does not answer');
  }
  if (response.ok) return response;
  if (response.status === 401) refusals.value++;
  throw errorFrom(response.status, await response.text());
}
