/** The login page, against the contract of `/api/v1/session`: the answers are those of a server with users. */
import { expect, expectAccessible, shot, test } from './support';

test('a user logs in, sends the token with each change, and logs out', async ({ site, server }) => {
  let user: string | null = null;
  const tokens: (string | undefined)[] = [];
  const session = () => ({ user, admin: true, auth: true, csrf: user === null ? null : 'c5f1' });
  await site.route('**/api/v1/session', async (route) => {
    const request = route.request();
    if (request.method() === 'POST') {
      const body = request.postDataJSON() as { user?: string; password?: string };
      if (body.password !== 'correct horse') {
        const error = { kind: 'unauthenticated', message: 'wrong user or password' };
        await route.fulfill({ status: 401, json: { error } });
        return;
      }
      user = body.user ?? null;
    } else if (request.method() === 'DELETE') {
      tokens.push(request.headers()['x-tidelake-csrf']);
      user = null;
      await route.fulfill({ status: 204 });
      return;
    }
    await route.fulfill({ json: session() });
  });
  site.on('request', (request) => {
    if (request.url().endsWith('/api/v1/sql')) tokens.push(request.headers()['x-tidelake-csrf']);
  });

  await server.write('home', 's', 'climate,room=kitchen temperature=21 1767225600');
  await site.reload();
  await expect(site.getByRole('heading', { name: 'Log in to Tidelake' })).toBeVisible();
  await expectAccessible(site);
  await shot(site, 'login');
  await site.getByLabel('Name', { exact: true }).fill('ada');
  await site.getByLabel('Password', { exact: true }).fill('guess');
  await site.getByRole('button', { name: 'Log in' }).click();
  await expect(site.getByRole('alert')).toContainText('wrong user or password');
  await site.getByLabel('Password', { exact: true }).fill('correct horse');
  await site.getByRole('button', { name: 'Log in' }).click();
  await expect(site.getByRole('treeitem', { name: 'home' })).toBeVisible();

  await site.getByRole('button', { name: 'User ada' }).click();
  await site.getByRole('button', { name: 'Log out' }).click();
  await expect(site.getByRole('heading', { name: 'Log in to Tidelake' })).toBeVisible();
  expect(tokens.length).toBeGreaterThan(1);
  expect(new Set(tokens)).toEqual(new Set(['c5f1']));
});
