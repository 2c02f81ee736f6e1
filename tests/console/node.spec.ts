/** The page Live with the stream of the server. */
import { expect, expectAccessible, shot, test } from './support';

test('the figures of the server arrive, with its log', async ({ site, server }) => {
  await site.goto(`${server.url}/#/live`);
  await expect(site.getByText('Connected', { exact: true })).toBeVisible();
  const lines = Array.from({ length: 500 }, (_, row) => `climate,room=r1 temperature=1 ${1_767_225_600 + row}`);
  await server.write('live', 's', lines.join('\n'));
  await expect(site.getByRole('region', { name: 'Rows written by table' })).toContainText('live.climate');
  await expect(site.getByRole('region', { name: 'Memory' }).getByRole('listitem').first()).toBeVisible();
  await expectAccessible(site);
  await shot(site, 'node-overview');
  await site.getByRole('tab', { name: 'Store' }).click();
  await expect(site.getByText(/Estimate: [\d.]+ USD a month/)).toBeVisible();
  await site.getByRole('tab', { name: 'Log' }).click();
  await expect(site.getByRole('log')).toBeVisible();
});
