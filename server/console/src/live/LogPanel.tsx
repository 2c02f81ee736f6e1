/** The tail of the log, with filters. */
import type { JSX } from 'preact';
import { memo } from 'preact/compat';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { formatInstant, zone, type Zone } from '../chart/instant';
import { formatCount } from '../chart/units';
import { useCommands } from '../shell/commands';
import { change, route } from '../shell/route';
import { Choice } from '../widgets/Choice';
import { CopyButton } from '../widgets/CopyButton';
import { Icon } from '../widgets/icons';
import { Search } from '../widgets/Search';
import { fieldsOf, isSame, levels, mostLines, select, type Level, type Line } from './log';
import { lines, link, selected, stopped, wanted } from './stream';

const names: readonly (readonly [Level, string])[] = levels.map((level) => [level, level.toLowerCase()]);

/** Milliseconds after the last key before the server is asked for other lines. */
const typing = 400;

export function LogPanel(): JSX.Element {
  const { parameters } = route.value;
  const level = levels.find((one) => one === parameters.get('level')) ?? 'INFO';
  const words = parameters.get('words') ?? '';
  /** What is shown while the tail is paused. */
  const [paused, setPaused] = useState<readonly Line[] | null>(null);
  const view = useRef<HTMLDivElement>(null);
  const atEnd = useRef(true);
  const all = lines.value;
  const found = select(paused ?? all, { level, words });
  const missed = (all.at(-1)?.number ?? 0) - (paused?.at(-1)?.number ?? 0);

  const toggle = useRef<() => void>(() => undefined);
  toggle.current = () => setPaused(paused === null ? lines.peek() : null);
  useCommands(() => [{ name: 'Live: pause or continue the log', run: () => toggle.current() }]);

  useLayoutEffect(() => {
    if (atEnd.current) view.current?.scrollTo({ top: view.current.scrollHeight });
  });
  // A new filter shows the newest lines.
  useEffect(() => {
    atEnd.current = true;
  }, [level, words]);
  // It asks the server for others once the user does not type. While the log is paused, its lines stay as they are.
  useEffect(() => {
    if (paused !== null || isSame(wanted.peek(), { level, words })) return;
    const timer = setTimeout(() => (wanted.value = { level, words }), typing);
    return () => clearTimeout(timer);
  }, [level, words, paused === null, wanted.value]);

  return (
    <div class="live-panel log-panel">
      <div class="query-bar" role="group" aria-label="Filter of the log">
        <Choice
          label="Level"
          value={level}
          options={names}
          onChange={(next) => change({ level: next }, true)}
        />
        <Search label="Words in the line" value={words} onChange={(next) => change({ words: next }, true)} />
        <button type="button" class="button" aria-pressed={paused !== null} onClick={() => toggle.current()}>
          <Icon name={paused === null ? 'pause' : 'play'} />
          {paused === null ? 'Pause' : `Continue${missed > 0 ? ` (${formatCount(missed)} new)` : ''}`}
        </button>
        <CopyButton label="Copy lines" text={() => found.map((line) => textOf(line, 'utc')).join('\n')} />
        <span class="tree-hint">
          {formatCount(found.length)} of {formatCount(all.length)} lines; the newest {formatCount(mostLines)}{' '}
          are kept
        </span>
      </div>
      <div
        class="log"
        ref={view}
        role="log"
        aria-live="off"
        aria-label="Log"
        tabIndex={0}
        onScroll={(event) => {
          const { scrollHeight, scrollTop, clientHeight } = event.currentTarget;
          atEnd.current = scrollHeight - scrollTop - clientHeight < 24;
        }}
      >
        {found.map((line) => (
          <LogRow key={line.number} line={line} where={zone.value} />
        ))}
        {found.length === 0 && (
          <p class="data-table-note">
            {isSame(selected.value, { level, words }) ? none(words) : missing(paused !== null)}
          </p>
        )}
      </div>
    </div>
  );
}

/** What is shown where the node has no line of a selection. */
function none(words: string): string {
  return words === ''
    ? 'No line of this level yet. The server logs what its filter allows: PUT /api/v1/log changes it.'
    : 'No line has this level and these words: choose another level or remove words.';
}

/** What is shown where the page does not have the lines of a selection yet. */
function missing(isPaused: boolean): string {
  if (isPaused) return 'The log is paused; Continue loads the lines';
  if (stopped.value) return 'The page is stopped; Continue loads the lines';
  const { state } = link.value;
  return state === 'waiting' || state === 'refused' ? 'No connection' : 'Loading the lines…';
}

function textOf(line: Line, where: Zone): string {
  const parts = [
    formatInstant(Date.parse(line.time), where),
    line.level,
    line.target,
    line.message,
    fieldsOf(line),
  ];
  return parts.filter((part) => part !== '').join(' ');
}

const LogRow = memo(function LogRow({ line, where }: { line: Line; where: Zone }): JSX.Element {
  return (
    <div class={`log-line log-${line.level.toLowerCase()}`}>
      <span class="log-time">{formatInstant(Date.parse(line.time), where)}</span>{' '}
      <span class="log-level">{line.level}</span> <span class="log-target">{line.target}</span> {line.message}{' '}
      <span class="log-fields">{fieldsOf(line)}</span>
    </div>
  );
});
