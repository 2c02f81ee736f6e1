/** What the measurements of the console share: figures and their report, and rows that arrive at a rate. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';

/** One row of the report. */
interface Figure {
  name: string;
  /** As measured, in the order of the runs. */
  samples: number[];
  unit: string;
  /** What is compared with the limit. */
  value: number;
  limit: number | null;
}

const figures: Figure[] = [];
const started = new Date().toISOString();
// Before the measurements: the next commit can come meanwhile.
const commit = execFileSync('git', ['rev-parse', '--short=12', 'HEAD'], { encoding: 'utf8' }).trim();

export function percentile(samples: readonly number[], share: number): number {
  const sorted = [...samples].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length * share)] ?? NaN;
}

export function median(samples: readonly number[]): number {
  return percentile(samples, 0.5);
}

export function add(name: string, samples: number[], unit: string, limit: number | null, value = median(samples)): void {
  figures.push({ name, samples, unit, value, limit });
}

/** Writes the report of the figures so far. */
export function record(title: string, browser: string): void {
  const directory = process.env['CONSOLE_REPORT'];
  if (!directory) throw new Error('set CONSOLE_REPORT to the directory for the report');
  mkdirSync(directory, { recursive: true });
  const conditions = {
    started,
    commit,
    processor: os.cpus()[0]?.model ?? 'unknown',
    processors: os.cpus().length,
    browser,
  };
  const shown = (value: number) => (value < 100 ? value.toFixed(1) : value.toFixed(0)).replace(/\.0$/, '');
  const lines = [
    `# ${title}`,
    '',
    `- Started ${conditions.started}, commit \`${conditions.commit}\`.`,
    `- ${conditions.processor}, ${conditions.processors} cores, shared by server, browser (Chromium ${conditions.browser}, headless, without GPU) and clients.`,
    '- Times are those of the browser, from the event of the user to the second frame after the change of the page.',
    '- Medians of the runs; of frames and memory the largest value.',
    '',
    '| | measured | limit | runs |',
    '|---|---:|---:|---|',
    ...figures.map(
      ({ name, samples, unit, value, limit }) =>
        `| ${name} | **${shown(value)}** ${unit} | ${limit === null ? '' : `${shown(limit)} ${unit}`} | ${samples.length > 12 ? samples.length : samples.map(shown).join(', ')} |`,
    ),
    '',
  ];
  writeFileSync(path.join(directory, 'report.json'), `${JSON.stringify({ conditions, figures }, null, 1)}\n`);
  writeFileSync(path.join(directory, 'report.md'), lines.join('\n'));
}

/** Writes batches of rows at a rate as long as `until` is not over. Returns the milliseconds to each acknowledgement. */
export async function ingest(url: string, rowsPerSecond: number, seconds: number): Promise<number[]> {
  const rows = 5000;
  const begin = Date.now() - 3_600_000;
  const agent = new http.Agent({ keepAlive: true, maxSockets: 8 });
  const send = (body: Buffer) =>
    new Promise<void>((resolve, reject) => {
      const request = http.request(`${url}/write?db=paced&precision=ms`, { method: 'POST', agent }, (answer) => {
        answer.resume();
        answer.on('end', () => (answer.statusCode === 204 ? resolve() : reject(new Error(`status ${answer.statusCode}`))));
      });
      request.on('error', reject);
      request.end(body);
    });
  const bodies = Array.from({ length: 40 }, (_, batch) =>
    Buffer.from(
      Array.from({ length: rows }, (_, row) => `meters,id=m${(batch * rows + row) % 1000} v=${row}i ${begin + batch * rows + row}`).join('\n'),
    ),
  );
  const latencies: number[] = [];
  const pending = new Set<Promise<void>>();
  const count = Math.floor((rowsPerSecond * seconds) / rows);
  const start = performance.now();
  for (let request = 0; request < count; request++) {
    const due = start + (request * rows * 1000) / rowsPerSecond;
    const wait = due - performance.now();
    if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
    // From the planned time: a server that falls behind is not excused.
    const sent: Promise<void> = send(bodies[request % bodies.length] ?? Buffer.of()).then(() => {
      latencies.push(performance.now() - due);
      pending.delete(sent);
    });
    pending.add(sent);
  }
  await Promise.all(pending);
  agent.destroy();
  return latencies;
}
