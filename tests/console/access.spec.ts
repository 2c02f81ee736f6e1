/** The page Access on servers with and without users. */
import { adminPassword, command, expect, expectAccessible, faultsOf, logIn, logOut, shot, test, withUsers } from './support';

test('without authentication the page says how to turn it on', async ({ site, server }) => {
  await site.goto(`${server.url}/#/access`);
  await expect(site.getByRole('note')).toContainText('tidelake serve --auth on --admin-password-file');
  await site.getByRole('button', { name: 'New user' }).click();
  const dialog = site.getByRole('dialog', { name: 'Create a user' });
  await dialog.getByLabel('Name').fill('Ada');
  await dialog.getByLabel('Password').fill('a secret of ada');
  await expect(dialog.getByLabel('Statement')).toHaveText("CREATE USER `Ada` PASSWORD '***'");
  await expectAccessible(site);
  await shot(site, 'access-dialog');
  // The first user must be an administrator: the error is in the dialog, which keeps what was typed.
  await dialog.getByRole('button', { name: 'Create the user' }).click();
  await expect(dialog.getByRole('alert')).toBeVisible();
  await site.keyboard.press('Escape');
  await expect(dialog).toBeHidden();
  await expect(site.getByRole('button', { name: 'New user' })).toBeFocused();
});

test('a user gets a right and a token, whose revocation refuses it', async ({ page }) => {
  const faults = faultsOf(page);
  await withUsers(async ({ url, post }) => {
    for (const database of ['home', 'plant']) {
      await post(`/write?db=${database}&precision=s`, 'climate,room=kitchen temperature=21 1767225600');
    }
    const query = (token: string, database: string) =>
      fetch(`${url}/api/v1/sql`, {
        method: 'POST',
        body: `SELECT count(*) FROM ${database}.climate`,
        headers: { authorization: `Bearer ${token}` },
      }).then((answer) => answer.status);

    await page.goto(`${url}/#/access`);
    await logIn(page, 'admin', adminPassword);
    await page.getByRole('button', { name: 'New user' }).click();
    await page.getByLabel('Name', { exact: true }).fill('ada');
    await page.getByLabel('Password', { exact: true }).fill('a password of ada');
    await page.getByRole('button', { name: 'Create the user' }).click();
    const users = page.getByRole('region', { name: 'Users' });
    await expect(users.getByRole('row').filter({ hasText: 'ada' })).toContainText('enabled');

    await command(page, 'access: grant');
    await page.getByLabel('To the user').fill('ada');
    await page.getByRole('combobox', { name: 'On', exact: true }).selectOption('home');
    await expect(page.getByLabel('Statement')).toHaveText('GRANT READ ON home.* TO ada');
    await page.getByRole('button', { name: 'Grant', exact: true }).click();
    await page.getByRole('tab', { name: 'Rights' }).click();
    await expect(page.getByRole('region', { name: 'Rights' }).getByRole('row').filter({ hasText: 'ada' })).toContainText('READhome');
    await expectAccessible(page);
    await shot(page, 'access-rights');

    await page.getByRole('button', { name: 'New token' }).click();
    await page.getByLabel('Name', { exact: true }).fill('browser');
    await page.getByLabel('For the user').fill('ada');
    await page.getByRole('button', { name: 'Restrict to a right' }).click();
    await expect(page.getByLabel('Statement')).toHaveText('CREATE TOKEN browser FOR ada WITH READ ON *.* EXPIRES IN 30d');
    await shot(page, 'access-token-dialog');
    await page.getByRole('button', { name: 'Create the token' }).click();
    const shown = page.getByRole('region', { name: 'The token browser' });
    await expect(shown).toContainText('not shown again');
    const token = await shown.locator('code').innerText();
    expect(token).toMatch(/^tl_/);
    await expectAccessible(page);
    await shot(page, 'access-token');
    expect(await query(token, 'home')).toBe(200);
    expect(await query(token, 'plant')).toBe(403);
    await shown.getByRole('button', { name: 'I have copied it' }).click();
    await expect(shown).toHaveCount(0);

    const row = page.getByRole('region', { name: 'Tokens' }).getByRole('row').filter({ hasText: 'browser' });
    await expect(row).toContainText('READ ON *');
    await row.getByRole('button', { name: 'Drop the token browser of ada' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Drop the token' }).click();
    await expect(row).toHaveCount(0);
    expect(await query(token, 'home')).toBe(401);

    // A user without administration sees own entries alone, and not what the node does.
    await logOut(page, 'admin');
    await logIn(page, 'ada', 'a password of ada');
    await page.getByRole('tab', { name: 'Users' }).click();
    await expect(users.getByRole('row')).toHaveCount(2);
    await expect(page.getByRole('button', { name: 'New user' })).toHaveCount(0);
    await expectAccessible(page);
    await shot(page, 'access-own');
    await page.getByRole('link', { name: 'Live' }).click();
    await expect(page.getByRole('heading', { name: 'Live is for administrators' })).toBeVisible();
    await expectAccessible(page);
    await page.getByRole('link', { name: 'Data' }).click();
    await expect(page.getByRole('region', { name: 'List of databases' }).getByRole('row')).toHaveCount(2);
    await expect(page.getByRole('button', { name: 'Change the retention of home' })).toHaveCount(0);
    await page.getByRole('treeitem', { name: 'climate' }).click();
    await expect(page.getByText('Administrators can do so at once from here.')).toBeVisible();

    // Who changes the own password logs in again with the new one.
    await page.getByRole('link', { name: 'Access' }).click();
    await page.getByRole('button', { name: 'Change the password of ada' }).click();
    await page.getByLabel('New password').fill('another password');
    await expect(page.getByLabel('Statement')).toHaveText("ALTER USER ada PASSWORD '***'");
    await page.getByRole('dialog').getByRole('button', { name: 'Change the password' }).click();
    await expect(page.getByRole('heading', { name: 'Log in to Tidelake' })).toBeVisible();
    await logIn(page, 'ada', 'another password');
    await page.getByRole('tab', { name: 'Sessions' }).click();
    await page.getByRole('button', { name: 'End sessions' }).click();
    await expect(page.getByLabel('Statement')).toHaveText('ROTATE SESSIONS FOR ada');
    await page.getByRole('button', { name: 'End the sessions' }).click();
    await expect(page.getByRole('heading', { name: 'Log in to Tidelake' })).toBeVisible();
  });
  expect(faults).toEqual([]);
});

test('an administrator limits, disables and drops a user', async ({ page }) => {
  const faults = faultsOf(page);
  await withUsers(async ({ url, post }) => {
    await post('/api/v1/sql', "create user ada password 'a password of ada'");
    await page.goto(`${url}/#/access`);
    await logIn(page, 'admin', adminPassword);
    const row = page.getByRole('region', { name: 'Users' }).getByRole('row').filter({ hasText: 'ada' });
    await row.getByRole('button', { name: 'Limits of ada' }).click();
    await page.getByLabel('Concurrent queries').fill('4');
    await page.getByLabel('Memory of all queries').fill('512MiB');
    await page.getByLabel('Run time of a query').fill('30s');
    await page.getByRole('button', { name: 'Set the limits' }).click();
    await expect(row).toContainText('4 queries, 512 MiB, 30 s');
    await row.getByRole('button', { name: 'Disable ada' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Disable' }).click();
    await expect(row).toContainText('disabled');
    await row.getByRole('button', { name: 'Drop ada' }).click();
    const drop = page.getByRole('dialog').getByRole('button', { name: 'Drop the user' });
    await expect(drop).toBeDisabled();
    await page.getByLabel('Type ada to confirm').fill('ada');
    await drop.click();
    await expect(row).toHaveCount(0);
  });
  expect(faults).toEqual([]);
});

test('a user who may write but not read sees what is possible on an empty server', async ({ page }) => {
  const faults = faultsOf(page);
  await withUsers(async ({ url, post }) => {
    await post('/api/v1/sql', "create user writer password 'a password of it'");
    await post('/api/v1/sql', 'grant write on *.* to writer');
    await page.goto(url);
    await logIn(page, 'writer', 'a password of it');
    await expect(page.getByRole('heading', { name: 'You may write, but not read' })).toBeVisible();
    await expect(page.getByText('every database, also a new one')).toBeVisible();
    await expect(page.getByText('GRANT READ ON home.* TO writer')).toBeVisible();
    await expectAccessible(page);
  });
  expect(faults).toEqual([]);
});
