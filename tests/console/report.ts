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
  writeFileSync(path.join(directory, 'report.json'), `${JSON.stringify({ conditions, figures })}\n`);
  writeFileSync(path.join(directory, 'report.md'), lines.join('\n'));
}

/** Rows of one request. */
const rows = 5000;

/** Milliseconds between the times of two rounds of `bodies`: their rows lie within one such span. */
const round = 1_000_000;

/** Rows of a thousand series, one a millisecond, from the beginning of a span on. */
const bodies = Array.from({ length: 40 }, (_, batch) => {
  const line = (row: number) => `meters,id=m${row % 1000} v=${row}i ${1_767_000_000_000 + row}`;
  return Buffer.from(Array.from({ length: rows }, (_, row) => line(batch * rows + row)).join('\n'));
});

/** Spans that rows have been written for. */
let spans = 0;

/** Moves the rows of a body into a span: replaces the first digits of each time. */
function inSpan(body: Buffer, span: number): Buffer {
  const digits = String(1_767_000_000_000 / round + span);
  const moved = Buffer.from(body);
  for (let end = moved.indexOf(10); ; end = moved.indexOf(10, end + 1)) {
    moved.write(digits, (end < 0 ? moved.length : end) - 13, 'latin1');
    if (end < 0) return moved;
  }
}

/** Writes rows at a rate, no row twice. Returns the milliseconds from the planned time of each request to its acknowledgement. */
export async function ingest(url: string, rowsPerSecond: number, seconds: number): Promise<number[]> {
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
  const latencies: number[] = [];
  const pending = new Set<Promise<void>>();
  const count = Math.floor((rowsPerSecond * seconds) / rows);
  const start = performance.now();
  for (let request = 0; request < count; request++) {
    const at = request % bodies.length;
    if (at === 0) spans++;
    const body = inSpan(bodies[at] ?? Buffer.of(), spans);
    const due = start + (request * rows * 1000) / rowsPerSecond;
    const wait = due - performance.now();
    if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
    const sent: Promise<void> = send(body).then(() => {
      // From the planned time: a server that falls behind is not excused.
      latencies.push(performance.now() - due);
      pending.delete(sent);
    });
    pending.add(sent);
  }
  await Promise.all(pending);
  agent.destroy();
  return latencies;
}
