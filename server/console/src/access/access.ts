/** Users, rights and tokens as the server lists them: an administrator sees all, others their own. */
import { rows } from '../api/sql';
import type { Some } from '../catalog/catalog';
import { containsPattern } from '../catalog/names';

export interface User {
  name: string;
  admin: boolean;
  enabled: boolean;
  password: boolean;
  tokens: number;
  /** `null`: no limit. */
  queries: number | null;
  memory: number | null;
  milliseconds: number | null;
}

export interface Grant {
  user: string;
  privilege: string;
  database: string;
}

export interface Token {
  name: string;
  user: string;
  /** `null`: everything that its user may do. */
  rights: string | null;
  /** Milliseconds since 1970. */
  created: number;
  expires: number | null;
}

/** Entries of a list; a search finds others. */
export const listed = 200;

function page(table: string, column: string, order: string, words: string): string {
  const filter = words === '' ? '' : ` WHERE ${column} LIKE ${containsPattern(words)}`;
  return `SELECT * FROM information_schema.${table}${filter} ORDER BY ${order} LIMIT ${listed + 1}`;
}

function some<T>(items: T[]): Some<T> {
  return { items: items.slice(0, listed), more: items.length > listed };
}

function numberOrNull(value: unknown): number | null {
  return typeof value === 'number' ? value : null;
}

export async function users(words: string, signal: AbortSignal): Promise<Some<User>> {
  const data = await rows({ sql: page('ins_users', 'name', 'name', words) }, signal);
  return some(
    data.map(([name, admin, enabled, password, tokens, queries, memory, milliseconds]) => ({
      name: String(name),
      admin: admin === 1,
      enabled: enabled === 1,
      password: password === 1,
      tokens: Number(tokens),
      queries: numberOrNull(queries),
      memory: numberOrNull(memory),
      milliseconds: numberOrNull(milliseconds),
    })),
  );
}

export async function grants(words: string, signal?: AbortSignal): Promise<Some<Grant>> {
  const sql = page('ins_user_privileges', 'user_name', 'user_name, db_name', words);
  const data = await rows({ sql }, signal);
  return some(
    data.map(([user, privilege, database]) => ({
      user: String(user),
      privilege: String(privilege),
      database: String(database),
    })),
  );
}

export async function tokens(words: string, signal: AbortSignal): Promise<Some<Token>> {
  const sql = page('ins_tokens', 'user_name', 'user_name, name', words);
  const data = await rows({ sql }, signal);
  return some(
    data.map(([name, user, rights, created, expires]) => ({
      name: String(name),
      user: String(user),
      rights: rights === null || rights === undefined ? null : String(rights),
      created: Date.parse(String(created)),
      expires: typeof expires === 'string' ? Date.parse(expires) : null,
    })),
  );
}
