/** Follows a node: its figures and its log, while the page Live is shown and the browser shows the page. */
import { batch, computed, signal } from '@preact/signals';
import { ApiError, toApiError } from '../api/errors';
import { events, type ServerEvent } from '../api/events';
import { eventsPath, type LogLine, type NodeFigures } from '../api/node';
import {
  append,
  initialSelection,
  isSame,
  joined,
  lastNumber,
  mostLines,
  select,
  unknown,
  type Line,
  type Selection,
} from './log';
import { ratesOf, type Rates } from './rates';
import { Ring } from './ring';

export type Link =
  | { state: 'connecting' | 'open' | 'paused' }
  /** The stream broke: the next attempt is at `until` (milliseconds). */
  | { state: 'waiting'; error: ApiError; until: number }
  /** Another attempt would be refused, too. */
  | { state: 'refused'; error: ApiError };

export const link = signal<Link>({ state: 'connecting' });
export const figures = signal<NodeFigures | null>(null);
export const rates = signal<Rates | null>(null);
export const lines = signal<Line[]>([]);

/** The lines that the page asks the server for. */
export const wanted = signal<Selection>(initialSelection);

/** What `lines` are selected by; `null` before the first answer of the server. */
export const selected = signal<Selection | null>(null);

/** Whether the user has stopped the page. */
export const stopped = signal(false);

/** The charts of the page. */
export const rings = { protocols: new Ring(), tables: new Ring(), queries: new Ring(), store: new Ring() };

export type Chart = keyof typeof rings;

const charts = Object.keys(rings) as Chart[];

/** Seconds between two answers beyond which a line has a gap. */
const gap = 5;

/** Milliseconds between two updates of the log. */
const pause = 250;

const longestWait = 30;

/** Seconds before an attempt; they double with each one that fails. */
export function waitOf(attempt: number): number {
  return Math.min(longestWait, 2 ** attempt);
}

export function accept(now: NodeFigures): void {
  const before = figures.value;
  // Another stream sends the figures of the last second again.
  if (before?.time === now.time) return;
  figures.value = now;
  const found = before ? ratesOf(before, now) : null;
  rates.value = found;
  const time = Date.parse(now.time);
  for (const chart of charts) {
    const ring = rings[chart];
    if (before && (!found || found.seconds > gap)) ring.push((ring.lastTime() ?? time) + 1, new Map());
    if (found) ring.push(time, found[chart]);
  }
}

function logLines(group: readonly ServerEvent[]): LogLine[] {
  return group.filter((event) => event.name === 'log').map((event) => JSON.parse(event.data) as LogLine);
}

function pathOf({ level, words }: Selection): string {
  const parameters = new URLSearchParams({ level: level.toLowerCase(), ...(words === '' ? {} : { words }) });
  return `${eventsPath}?${parameters.toString()}`;
}

/** Connects, and again with growing pauses where the stream breaks. Returns what ends it. */
export function follow(): () => void {
  let abort = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  let attempt = 0;
  link.value = { state: 'connecting' };

  const connect = async () => {
    abort = new AbortController();
    const { signal: mine } = abort;
    const asked = wanted.peek();
    /** Whether the lines of the page are of another selection. */
    const other = !isSame(selected.peek(), asked);
    const known = other ? [] : lines.value;
    const last = lastNumber(lines.value);
    /** Lines that are not shown yet; they are numbered before the oldest of them are forgotten. */
    let pending: Line[] = [];
    let number = last;
    let scheduled = false;
    const flush = () => {
      scheduled = false;
      // The next stream sends them again.
      if (mine.aborted) return;
      const before = isSame(selected.peek(), asked) ? lines.value : select(lines.value, asked);
      batch(() => {
        lines.value = other ? joined(before, pending, last) : [...before, ...pending].slice(-mostLines);
        selected.value = asked;
      });
      pending = [];
    };
    // Another selection of lines keeps an open link open.
    if (link.peek().state !== 'open') link.value = { state: 'connecting' };
    try {
      for await (const group of events(pathOf(asked), mine)) {
        attempt = 0;
        if (link.value.state !== 'open') link.value = { state: 'open' };
        for (const event of group) {
          if (event.name === 'node') accept(JSON.parse(event.data) as NodeFigures);
        }
        pending = append(pending, unknown(known, logLines(group)), number);
        number = Math.max(number, lastNumber(pending));
        if ((pending.length > 0 || !isSame(selected.peek(), asked)) && !scheduled) {
          scheduled = true;
          setTimeout(flush, pause);
        }
      }
      throw new ApiError('network', 0, 'the server ended the stream');
    } catch (thrown) {
      if (mine.aborted) return;
      const error = toApiError(thrown);
      if (error.status >= 400 && error.status < 500 && error.status !== 429) {
        link.value = { state: 'refused', error };
        return;
      }
      const seconds = waitOf(attempt++);
      link.value = { state: 'waiting', error, until: Date.now() + seconds * 1000 };
      timer = setTimeout(() => void connect(), seconds * 1000);
    }
  };

  const end = () => {
    abort.abort();
    clearTimeout(timer);
  };
  const visibility = () => {
    end();
    if (stopped.peek() || document.visibilityState === 'hidden') link.value = { state: 'paused' };
    else void connect();
  };
  document.addEventListener('visibilitychange', visibility);
  // Called at once, and when the user stops or continues the page, or selects other lines of the log.
  const causes = computed(() => ({ stopped: stopped.value, wanted: wanted.value }));
  const release = causes.subscribe(visibility);
  return () => {
    release();
    document.removeEventListener('visibilitychange', visibility);
    end();
  };
}

/** Forgets what a user saw, before another one does. */
export function forget(): void {
  figures.value = null;
  rates.value = null;
  lines.value = [];
  selected.value = null;
  wanted.value = initialSelection;
  for (const chart of charts) rings[chart] = new Ring();
}
