import { expect, it } from 'vitest';
import {
  changePassword,
  createToken,
  createUser,
  dropToken,
  everywhere,
  grant,
  limitUser,
  revoke,
  rotateSessions,
} from './statements';

it('shows statements without their passwords', () => {
  const made = createUser({ name: 'ada', password: "it's a secret", admin: true });
  expect(made?.sql).toBe("CREATE USER ada PASSWORD 'it''s a secret' ADMIN");
  expect(made?.shown).toBe("CREATE USER ada PASSWORD '***' ADMIN");
  const changed = changePassword({ user: 'ada', password: 'new one', old: 'old one', keepTokens: true });
  expect(changed?.sql).toBe("ALTER USER ada PASSWORD 'new one' OLD 'old one' KEEP TOKENS");
  expect(changed?.shown).toBe("ALTER USER ada PASSWORD '***' OLD '***' KEEP TOKENS");
});

it('quotes names that are not plain', () => {
  expect(createUser({ name: 'Ada`B', password: '', admin: false })?.sql).toBe('CREATE USER `Ada``B`');
  expect(dropToken('for', 'a.b').sql).toBe('DROP TOKEN `for` FOR `a.b`');
  expect(rotateSessions(null).sql).toBe('ROTATE SESSIONS');
});

it('grants and revokes as SHOW GRANTS lists it', () => {
  expect(grant('ada', { privilege: 'READ', database: 'Home' })?.sql).toBe('GRANT READ ON `Home`.* TO ada');
  expect(revoke('ada', 'ALL', everywhere).sql).toBe('REVOKE ALL ON *.* FROM ada');
  expect(revoke('ada', 'ADMIN', everywhere).sql).toBe('REVOKE ADMIN FROM ada');
});

it('restricts a token to its scope', () => {
  const token = { name: 'telegraf', user: 'ada', expires: '30d', scopes: [] };
  expect(createToken(token)?.sql).toBe('CREATE TOKEN telegraf FOR ada EXPIRES IN 30d');
  expect(
    createToken({
      ...token,
      expires: '',
      scopes: [
        { privilege: 'READ', database: 'home' },
        { privilege: 'WRITE', database: everywhere },
      ],
    })?.sql,
  ).toBe('CREATE TOKEN telegraf FOR ada WITH READ ON home.*, WRITE ON *.*');
  expect(createToken({ ...token, user: '' })).toBeNull();
  expect(createToken({ ...token, expires: '30d; DROP USER x' })).toBeNull();
});

it('removes limits that are empty, and refuses what is none', () => {
  expect(limitUser('ada', { queries: '4', memory: '512MiB', time: '' })?.sql).toBe(
    "ALTER USER ada LIMIT QUERIES 4, MEMORY '512MiB', TIME 0s",
  );
  expect(limitUser('ada', { queries: 'x', memory: '', time: '' })).toBeNull();
});
