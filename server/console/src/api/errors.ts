/** Errors of the HTTP API, with what the server puts into their message. */

/** The kinds of the server, and `network`: no answer. */
export type ErrorKind =
  | 'invalid'
  | 'not_found'
  | 'conflict'
  | 'unauthenticated'
  | 'forbidden'
  | 'unsupported'
  | 'unavailable'
  | 'store_full'
  | 'corrupt'
  | 'internal'
  | 'network';

/** A place in a statement; both count from 1, columns in code points. */
export interface Position {
  line: number;
  column: number;
}

export interface ParsedMessage {
  summary: string;
  details: ReadonlyMap<string, string>;
  position: Position | null;
}

/** Splits `summary (key: value, key: value, line: 1, column: 9)`. */
export function parseMessage(message: string): ParsedMessage {
  const found = /^(.*?) \(([a-z][a-z ]*: .*)\)$/s.exec(message);
  const [, summary, inside] = found ?? [];
  if (summary === undefined || inside === undefined) {
    return { summary: message, details: new Map(), position: null };
  }
  const details = new Map<string, string>();
  for (const part of inside.split(/, (?=[a-z][a-z ]*: )/)) {
    const colon = part.indexOf(': ');
    details.set(part.slice(0, colon), part.slice(colon + 2));
  }
  const line = Number(details.get('line'));
  const column = Number(details.get('column'));
  details.delete('line');
  details.delete('column');
  const position = Number.isInteger(line) && Number.isInteger(column) ? { line, column } : null;
  return { summary, details, position };
}

/** The offset of a position in UTF-16 units; the end of the text if the position is behind it. */
export function offsetOf(text: string, position: Position): number {
  let start = 0;
  for (let line = 1; line < position.line; line++) {
    const end = text.indexOf('\n', start);
    if (end < 0) return text.length;
    start = end + 1;
  }
  let column = 1;
  let offset = start;
  for (const character of text.slice(start)) {
    if (column >= position.column || character === '\n') break;
    column++;
    offset += character.length;
  }
  return offset;
}

export class ApiError extends Error {
  readonly kind: ErrorKind;
  readonly status: number;
  readonly parsed: ParsedMessage;

  constructor(kind: ErrorKind, status: number, message: string) {
    super(message);
    this.name = 'ApiError';
    this.kind = kind;
    this.status = status;
    this.parsed = parseMessage(message);
  }

  /** What the user can do next, in one sentence. */
  get advice(): string {
    switch (this.kind) {
      case 'invalid':
      case 'unsupported':
        return 'Change the statement and run it again.';
      case 'not_found':
        return 'Check the name; the tree on the left lists what you may read.';
      case 'conflict':
        return 'Run it again.';
      case 'unauthenticated':
        return 'Log in again.';
      case 'forbidden':
        return 'Ask an administrator for the right: GRANT READ ON database.* TO user.';
      case 'unavailable':
        return 'The server is busy or its store does not answer: try again in a moment.';
      case 'store_full':
        return 'Free some space in the store, then try again.';
      case 'network':
        return 'Check that the server runs and that you can reach it, then try again.';
      case 'corrupt':
      case 'internal':
        return "Read the server's log.";
    }
  }
}

/** Whether an error is that of a request which the user cancelled. */
export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'AbortError';
}

/** Any thrown value as an error of the API. */
export function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  return new ApiError('network', 0, error instanceof Error ? error.message : String(error));
}
