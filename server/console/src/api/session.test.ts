import { expect, test } from 'vitest';
import { authorization } from './session';

test('credentials are sent in the header, names and passwords as UTF-8', () => {
  expect(authorization({ token: 'tlt_1' })).toBe('Bearer tlt_1');
  const sent = authorization({ user: 'zoë', password: 'a:b €' });
  expect(sent.startsWith('Basic ')).toBe(true);
  expect(Buffer.from(sent.slice(6), 'base64').toString('utf8')).toBe('zoë:a:b €');
});
