/** Login, rights and logout on a server with users. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Page } from '@playwright/test';
import { expect, expectAccessible, faultsOf, shot, start, stop, test } from './support';

const password = 'a password of the admin';

async function logIn(page: Page, name: string, secret: string): Promise<void> {
  await page.getByLabel('Name', { exact: true }).fill(name);
  await page.getByLabel('Password', { exact: true }).fill(secret);
  await page.getByRole('button', { name: 'Log in' }).click();
}

async function logOut(page: Page, name: string): Promise<void> {
  await page.getByRole('button', { name: `User ${name}` }).click();
  await page.getByRole('button', { name: 'Log out' }).click();
  await expect(page.getByRole('heading', { name: 'Log in to Tidelake' })).toBeVisible();
}

test('users log in and out, see their databases alone, and a revoked token is refused', async ({ page }) => {
  const directory = mkdtempSync(path.join(tmpdir(), 'tidelake-console-'));
  const server = await start(directory, password);
  const faults = faultsOf(page);
  const admin = { authorization: `Basic ${Buffer.from(`admin:${password}`).toString('base64')}` };
  const post = async (target: string, body: string): Promise<string> => {
    const answer = await fetch(`${server.url}${target}`, { method: 'POST', body, headers: admin });
    const text = await answer.text();
    expect(answer.ok, text).toBe(true);
    return text;
  };
  for (const database of ['home', 'plant']) {
    await post(`/write?db=${database}&precision=s`, 'climate,room=kitchen temperature=21 1767225600');
  }
  await post('/api/v1/sql', "create user ada password 'a password of ada'");
  await post('/api/v1/sql', 'grant read on home.* to ada');
  const made = JSON.parse(await post('/api/v1/sql', 'create token browser for ada')) as { data: string[][] };
  const token = made.data.flat().find((cell) => typeof cell === 'string' && cell.startsWith('tl')) ?? '';
  expect(token).not.toBe('');

  await page.goto(server.url);
  await expect(page.getByRole('heading', { name: 'Log in to Tidelake' })).toBeVisible();
  await expectAccessible(page);
  await shot(page, 'login');
  await logIn(page, 'admin', 'a guess');
  await expect(page.getByRole('alert')).toContainText('wrong user, password or token');
  await logIn(page, 'admin', password);
  for (const name of ['home', 'plant']) await expect(page.getByRole('treeitem', { name })).toBeVisible();
  // Scripts cannot read the session, and the browser keeps it over a reload.
  const cookies = await page.context().cookies();
  expect(cookies.map(({ name, httpOnly, sameSite }) => [name, httpOnly, sameSite])).toEqual([
    ['tidelake_session', true, 'Strict'],
  ]);
  await page.reload();
  await expect(page.getByRole('treeitem', { name: 'plant' })).toBeVisible();
  await logOut(page, 'admin');
  expect(await page.context().cookies()).toEqual([]);

  await logIn(page, 'ada', 'a password of ada');
  await expect(page.getByRole('treeitem', { name: 'home' })).toBeVisible();
  await expect(page.getByRole('treeitem', { name: 'plant' })).toHaveCount(0);
  await logOut(page, 'ada');

  const withToken = async () => {
    await page.getByRole('combobox', { name: 'With' }).selectOption('token');
    await page.locator('input[name=token]').fill(token);
    await page.getByRole('button', { name: 'Log in' }).click();
  };
  await withToken();
  await expect(page.getByRole('treeitem', { name: 'home' })).toBeVisible();
  await post('/api/v1/sql', 'drop token browser for ada');
  await page.reload();
  await expect(page.getByRole('heading', { name: 'Log in to Tidelake' })).toBeVisible();
  await withToken();
  await expect(page.getByRole('alert')).toContainText('wrong user, password or token');

  expect(faults).toEqual([]);
  await stop(server.process);
  rmSync(directory, { recursive: true });
});
