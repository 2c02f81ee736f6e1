/** Servers for files of tests, and pages whose errors fail the test. */
import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import AxeBuilder from '@axe-core/playwright';
import { expect, test as base, type Page } from '@playwright/test';

export interface Server {
  /** The address of the console. */
  url: string;
  /** The directory of its root. */
  root: string;
  sql: (statement: string) => Promise<(string | number | null)[][]>;
  write: (database: string, precision: string, lines: string) => Promise<void>;
}

async function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const socket = net.createServer().listen(0, '127.0.0.1', () => {
      const address = socket.address();
      socket.close(() => resolve(typeof address === 'object' && address ? address.port : 0));
    });
  });
}

/**
 * Starts the binary on free ports with an empty directory, and waits until it answers. A password is that of `admin`; with an empty
 * one the root gets no user. Gives warnings of the log to `onLog`.
 */
export async function start(
  directory: string,
  password?: string,
  onLog?: (text: string) => void,
): Promise<{ process: ChildProcess; url: string }> {
  const binary = process.env['TIDELAKE_BIN'];
  if (!binary) throw new Error('set TIDELAKE_BIN to the binary of the server');
  const address = `127.0.0.1:${await freePort()}`;
  const flight = `127.0.0.1:${await freePort()}`;
  const server = spawn(
    binary,
    ['serve', '--store', path.join(directory, 'root'), '--listen', address, '--flight-listen', flight, '--log', onLog ? 'warn' : 'error'].concat(
      password === undefined ? [] : ['--auth', 'on'],
    ),
    {
      stdio: ['ignore', 'inherit', onLog ? 'pipe' : 'inherit'],
      env: { ...process.env, TIDELAKE_ADMIN_PASSWORD: password ?? '' },
    },
  );
  server.stderr?.on('data', (text: Buffer) => onLog?.(text.toString()));
  const url = `http://${address}`;
  await expect
    .poll(() => fetch(`${url}/ready`).then((answer) => answer.status, () => 0), { timeout: 60_000 })
    .toBe(200);
  return { process: server, url };
}

export async function stop(server: ChildProcess): Promise<void> {
  const ended = new Promise((resolve) => server.once('exit', resolve));
  server.kill('SIGTERM');
  await ended;
}

async function ok(answer: Response): Promise<Response> {
  if (!answer.ok) throw new Error(await answer.text());
  return answer;
}

/** Collects the errors of a page's log. Refused statements and logins are what some tests are about. */
export function faultsOf(page: Page): string[] {
  const faults: string[] = [];
  page.on('console', (message) => {
    const { url } = message.location();
    const isAnswer =
      /status of 4\d\d/.test(message.text()) && /\/api\/v1\/(whoami|login|first-user|sql|import|saved-queries\/[^?]*|queries\/[^?]*)(\?|$)/.test(url);
    // The tests break the stream of the page Live on purpose.
    const isBroken = url.includes('/api/v1/node/events');
    // Statements that fail behind their first rows: the server closes the connection.
    const isCut = message.text().includes('ERR_INCOMPLETE_CHUNKED_ENCODING') && url.endsWith('/api/v1/sql');
    if (message.type() === 'error' && !isAnswer && !isBroken && !isCut) faults.push(message.text());
  });
  page.on('pageerror', (error) => faults.push(error.message));
  return faults;
}

interface Fixtures {
  /** A page of the console; errors in its log and reports of the security policy fail the test. */
  site: Page;
}

interface WorkerFixtures {
  /** A file of tests that needs an empty server sets this to its name; files with the same value share a server. */
  file: string;
  server: Server;
}

export const test = base.extend<Fixtures, WorkerFixtures>({
  file: ['', { option: true, scope: 'worker' }],
  server: [
    async ({}, use) => {
      const directory = mkdtempSync(path.join(tmpdir(), 'tidelake-console-'));
      const started = await start(directory);
      await use({
        url: started.url,
        root: path.join(directory, 'root'),
        sql: async (statement) => {
          const answer = await ok(await fetch(`${started.url}/api/v1/sql`, { method: 'POST', body: statement }));
          return ((await answer.json()) as { data: (string | number | null)[][] }).data;
        },
        write: async (database, precision, lines) => {
          await ok(await fetch(`${started.url}/write?db=${database}&precision=${precision}`, { method: 'POST', body: lines }));
        },
      });
      await stop(started.process);
      rmSync(directory, { recursive: true });
    },
    { scope: 'worker', timeout: 120_000 },
  ],
  site: async ({ page, server }, use) => {
    const faults = faultsOf(page);
    await page.goto(server.url);
    await use(page);
    expect(faults).toEqual([]);
  },
});

export { expect };

export async function shot(page: Page, name: string): Promise<void> {
  const directory = process.env['CONSOLE_SHOTS'];
  if (directory) await page.screenshot({ path: path.join(directory, `${name}.png`) });
}

export async function expectAccessible(page: Page): Promise<void> {
  const { violations } = await new AxeBuilder({ page })
    .withTags(['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'])
    .analyze();
  expect(
    violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => `${node.html} ${node.failureSummary ?? ''}`).join(' | ')}`),
  ).toEqual([]);
}

/** Neither the document nor the content of the page is wider than the window. */
export async function expectNoSideScroll(page: Page): Promise<void> {
  const beyond = await page.evaluate(() =>
    [document.documentElement, ...document.querySelectorAll('.content')].map((element) => element.scrollWidth - element.clientWidth),
  );
  expect(beyond.every((pixels) => pixels <= 0), `pixels beyond the width: ${beyond.join(', ')}`).toBe(true);
}

/** The text of the editor, replaced by another one. */
export async function type(page: Page, text: string): Promise<void> {
  const editor = page.getByRole('textbox', { name: 'Statement' });
  await editor.focus();
  await page.keyboard.press('Control+A');
  await page.keyboard.press('Delete');
  await page.keyboard.insertText(text);
}

/** Drags over a chart, between two parts of its width. */
export async function drag(page: Page, from: number, to: number, steps = 5): Promise<void> {
  const box = await page.locator('.plot .u-over').boundingBox();
  if (!box) throw new Error('the chart has no size');
  await page.mouse.move(box.x + box.width * from, box.y + 60);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * to, box.y + 80, { steps });
  await page.mouse.up();
}

/** A drop of a file on an element of the page. */
export async function drop(page: Page, selector: string, name: string, content: string): Promise<void> {
  const data = await page.evaluateHandle(
    ([text, file]) => {
      const transfer = new DataTransfer();
      transfer.items.add(new File([text], file));
      return transfer;
    },
    [content, name] as const,
  );
  for (const event of ['dragover', 'drop']) await page.dispatchEvent(selector, event, { dataTransfer: data });
}

export async function logIn(page: Page, name: string, secret: string): Promise<void> {
  await page.getByLabel('Name', { exact: true }).fill(name);
  await page.getByLabel('Password', { exact: true }).fill(secret);
  await page.getByRole('button', { name: 'Log in' }).click();
}

export async function logOut(page: Page, name: string): Promise<void> {
  await page.getByRole('button', { name: `User ${name}` }).click();
  await page.getByRole('button', { name: 'Log out' }).click();
  await expect(page.getByRole('heading', { name: 'Log in to Tidelake' })).toBeVisible();
}

/** Runs a command of the palette. */
export async function command(page: Page, words: string): Promise<void> {
  await page.keyboard.press('Control+k');
  await page.getByRole('combobox', { name: 'Command', exact: true }).fill(words);
  await page.keyboard.press('Enter');
}

export interface Guarded {
  url: string;
  /** A request of the administrator; its answer as text. */
  post: (target: string, body: string) => Promise<string>;
}

export const adminPassword = 'a password of the admin';

/** A server with authentication on, as long as `use` runs. */
export async function withUsers(use: (server: Guarded) => Promise<void>): Promise<void> {
  const directory = mkdtempSync(path.join(tmpdir(), 'tidelake-console-'));
  const server = await start(directory, adminPassword);
  const admin = { authorization: `Basic ${Buffer.from(`admin:${adminPassword}`).toString('base64')}` };
  try {
    await use({
      url: server.url,
      post: async (target, body) => {
        const answer = await ok(await fetch(`${server.url}${target}`, { method: 'POST', body, headers: admin }));
        return answer.text();
      },
    });
  } finally {
    await stop(server.process);
    rmSync(directory, { recursive: true });
  }
}
