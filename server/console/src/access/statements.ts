/** Statements about users, rights, tokens and sessions. */
import { quoteName, quoteText } from '../catalog/names';
import { prepared, type Prepared } from '../widgets/StatementDialog';

export const privileges = ['READ', 'WRITE', 'ALL'] as const;

export type Privilege = (typeof privileges)[number];

/** What a right is on: a database, or every one. */
export const everywhere = '*';

export interface Scope {
  privilege: Privilege;
  database: string;
}

function on(database: string): string {
  return database === everywhere ? '*.*' : `${quoteName(database)}.*`;
}

/** Statements are shown without the passwords in them. */
function secret(make: (literal: (password: string) => string) => string): Prepared {
  return { sql: make(quoteText), shown: make(() => "'***'") };
}

export interface NewUser {
  name: string;
  /** Empty: the user authenticates by tokens alone. */
  password: string;
  admin: boolean;
}

export function createUser({ name, password, admin }: NewUser): Prepared | null {
  if (name === '') return null;
  return secret(
    (literal) =>
      `CREATE USER ${quoteName(name)}${password === '' ? '' : ` PASSWORD ${literal(password)}`}${admin ? ' ADMIN' : ''}`,
  );
}

export interface NewPassword {
  user: string;
  password: string;
  /** Needed by users who logged in with a token. */
  old: string;
  keepTokens: boolean;
}

export function changePassword({ user, password, old, keepTokens }: NewPassword): Prepared | null {
  if (password === '') return null;
  return secret(
    (literal) =>
      `ALTER USER ${quoteName(user)} PASSWORD ${literal(password)}${old === '' ? '' : ` OLD ${literal(old)}`}` +
      (keepTokens ? ' KEEP TOKENS' : ''),
  );
}

export function setAdmin(user: string, admin: boolean): Prepared {
  return prepared(`ALTER USER ${quoteName(user)} ADMIN ${admin ? 1 : 0}`);
}

export function setEnabled(user: string, enabled: boolean): Prepared {
  return prepared(`ALTER USER ${quoteName(user)} ENABLE ${enabled ? 1 : 0}`);
}

export interface Limits {
  /** Texts of a form; an empty one removes the limit. */
  queries: string;
  memory: string;
  time: string;
}

/** `null` if a text is no limit. */
export function limitUser(user: string, limits: Limits): Prepared | null {
  const queries = limits.queries.trim() || '0';
  const memory = limits.memory.trim() || '0';
  const time = limits.time.trim() || '0s';
  if (!/^\d{1,6}$/.test(queries) || !/^\d+ ?([KMGT]i?B|B)?$/i.test(memory) || !/^\d+[asmh]$/.test(time))
    return null;
  return prepared(
    `ALTER USER ${quoteName(user)} LIMIT QUERIES ${queries}, MEMORY ${quoteText(memory)}, TIME ${time}`,
  );
}

export function dropUser(user: string): Prepared {
  return prepared(`DROP USER ${quoteName(user)}`);
}

export function grant(user: string, scope: Scope): Prepared | null {
  if (user === '') return null;
  return prepared(`GRANT ${scope.privilege} ON ${on(scope.database)} TO ${quoteName(user)}`);
}

/** `privilege` as SHOW GRANTS has it. */
export function revoke(user: string, privilege: string, database: string): Prepared {
  const right = privilege === 'ADMIN' ? 'ADMIN' : `${privilege} ON ${on(database)}`;
  return prepared(`REVOKE ${right} FROM ${quoteName(user)}`);
}

export interface NewToken {
  name: string;
  user: string;
  /** Empty: everything that its user may do. */
  scopes: readonly Scope[];
  /** Such as `30d`; empty: it does not expire. */
  expires: string;
}

export function createToken({ name, user, scopes, expires }: NewToken): Prepared | null {
  if (name === '' || user === '' || !/^(\d+[mhdw])?$/.test(expires)) return null;
  const rights = scopes.map((scope) => `${scope.privilege} ON ${on(scope.database)}`).join(', ');
  return prepared(
    `CREATE TOKEN ${quoteName(name)} FOR ${quoteName(user)}` +
      (rights === '' ? '' : ` WITH ${rights}`) +
      (expires === '' ? '' : ` EXPIRES IN ${expires}`),
  );
}

export function dropToken(name: string, user: string): Prepared {
  return prepared(`DROP TOKEN ${quoteName(name)} FOR ${quoteName(user)}`);
}

/** Of one user, or of all for `null`. */
export function rotateSessions(user: string | null): Prepared {
  return prepared(`ROTATE SESSIONS${user === null ? '' : ` FOR ${quoteName(user)}`}`);
}
