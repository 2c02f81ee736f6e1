/** Login, rights and logout on a server with users. */
import { adminPassword, expect, expectAccessible, faultsOf, logIn, logOut, shot, test, withUsers } from './support';

test('users log in and out, see their databases alone, and a revoked token is refused', async ({ page }) => {
  const faults = faultsOf(page);
  await withUsers(async (server) => {
    const { post } = server;
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
    await logIn(page, 'admin', adminPassword);
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
  });
  expect(faults).toEqual([]);
});
