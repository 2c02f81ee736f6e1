/** The first user of a server that is started with authentication over an empty directory. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, expectAccessible, faultsOf, shot, start, stop, test } from './support';

test('the code of the log creates the first administrator', async ({ page }) => {
  const directory = mkdtempSync(path.join(tmpdir(), 'tidelake-console-'));
  let log = '';
  const server = await start(directory, '', (text) => (log += text));
  const faults = faultsOf(page);
  await page.goto(server.url);
  await expect(page.getByRole('heading', { name: 'Create the first user' })).toBeVisible();
  await expectAccessible(page);
  await shot(page, 'first-user');
  const code = /code="?([0-9a-f]{32})/.exec(log)?.[1];
  if (!code) throw new Error(`no code in the log: ${log}`);
  await page.getByLabel('Name of the administrator').fill('ada');
  await page.getByLabel('Password, at least 8 characters').fill('a long one of ada');
  await page.getByLabel('Code').fill('0'.repeat(32));
  await page.getByRole('button', { name: 'Create and log in' }).click();
  await expect(page.getByRole('alert')).toContainText('wrong code');
  await page.getByLabel('Code').fill(code);
  await page.getByRole('button', { name: 'Create and log in' }).click();
  await expect(page.getByRole('button', { name: 'User ada' })).toBeVisible();
  // The next page asks for the password, as for any user.
  await page.context().clearCookies();
  await page.goto(server.url);
  await page.reload();
  await expect(page.getByRole('heading', { name: 'Log in to Tidelake' })).toBeVisible();
  expect(faults).toEqual([]);
  await stop(server.process);
  rmSync(directory, { recursive: true });
});
