/** Saved queries: save, open, replace, rename and delete, by the mouse, the keyboard and a link. */
import { command, expect, expectAccessible, shot, test, type } from './support';

test.use({ file: 'saved' });

interface Listed {
  queries: { name: string; statement: string; database: string | null }[];
}

test('a statement is saved, opened by a link on another page, renamed and deleted', async ({ site, server, context }) => {
  const listed = async () =>
    ((await (await fetch(`${server.url}/api/v1/saved-queries`)).json()) as Listed).queries.map((one) => [one.name, one.statement]);
  const editor = site.getByRole('textbox', { name: 'Statement' });
  await server.write('plant', 's', 'points,device=d1 value=7i 1767225600');
  // The page may have read the databases before the write.
  await site.reload();
  await site.getByRole('link', { name: 'Query' }).click();
  await type(site, 'SELECT value FROM points');
  await site.getByRole('combobox', { name: 'Database' }).selectOption('plant');
  await editor.press('Control+s');
  const dialog = site.getByRole('dialog', { name: 'Save the statement' });
  await expectAccessible(site);
  await dialog.getByLabel('Name').fill('all/points ü');
  await site.keyboard.press('Enter');
  await expect(dialog).toBeHidden();
  expect(await listed()).toEqual([['all/points ü', 'SELECT value FROM points']]);

  // Another page of the same user opens the link.
  const other = await context.newPage();
  await other.goto(site.url());
  await expect(other.getByRole('textbox', { name: 'Statement' })).toHaveText('SELECT value FROM points');
  await other.getByRole('button', { name: 'Run', exact: true }).click();
  await expect(other.getByRole('grid').getByRole('row').nth(1)).toContainText('7');

  // Saving again replaces it, under the name that is proposed.
  await type(site, 'SELECT value + 1 AS v FROM points');
  await site.getByRole('button', { name: 'Save', exact: true }).click();
  await expect(dialog.getByLabel('Name')).toHaveValue('all/points ü');
  await dialog.getByRole('button', { name: 'Replace' }).click();
  await expect(dialog).toBeHidden();
  expect(await listed()).toEqual([['all/points ü', 'SELECT value + 1 AS v FROM points']]);

  // The other page has an older state: it does not replace the new one unseen.
  await type(other, 'SELECT 0');
  await other.getByRole('button', { name: 'Save', exact: true }).click();
  await other.getByRole('button', { name: 'Replace' }).click();
  await expect(other.getByRole('alert')).toContainText('changed meanwhile');
  await other.close();

  // The command palette opens it.
  await type(site, 'SELECT 2');
  await site.getByRole('link', { name: 'Explore' }).click();
  await site.getByRole('link', { name: 'Query' }).click();
  await command(site, 'open all/points');
  await expect(editor).toHaveText('SELECT value + 1 AS v FROM points');

  await site.getByRole('button', { name: 'Saved' }).click();
  await expect(site.getByRole('list', { name: 'Saved queries' })).toContainText('all/points ü');
  await expectAccessible(site);
  await shot(site, 'query-saved');
  await site.getByRole('button', { name: 'Rename all/points ü' }).click();
  await site.getByRole('dialog', { name: 'Rename' }).getByLabel('Name').fill('points');
  await site.keyboard.press('Enter');
  await expect(site.getByRole('dialog')).toBeHidden();
  expect(await listed()).toEqual([['points', 'SELECT value + 1 AS v FROM points']]);
  await expect(site).toHaveURL(/saved=points$/);

  await site.getByRole('button', { name: 'Saved' }).click();
  await site.getByRole('button', { name: 'Delete points' }).click();
  await site.getByRole('dialog', { name: 'Delete' }).getByRole('button', { name: 'Delete' }).click();
  await expect(site.getByRole('dialog')).toBeHidden();
  expect(await listed()).toEqual([]);
  await expect(editor).toHaveText('SELECT value + 1 AS v FROM points');

  await site.goto(`${server.url}/#/query?saved=points`);
  await expect(site.getByText('You have no saved query points')).toBeVisible();
});
