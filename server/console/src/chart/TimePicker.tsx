/** Relative ranges, two instants, and steps to the left, the right and outwards. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { Icon } from '../widgets/icons';
import { Menu } from '../widgets/Menu';
import { formatInstant, parseInstant, zone } from './instant';
import { boundsOf, lengthOf, moved, relative, scaled, type Range } from './range';

interface Props {
  range: Range;
  onChange: (range: Range) => void;
}

const words: Record<string, string> = { s: 'second', m: 'minute', h: 'hour', d: 'day', w: 'week' };

function nameOf(length: string): string {
  const count = Number.parseInt(length, 10);
  const unit = words[length.slice(-1)] ?? '';
  return `Last ${count === 1 ? '' : `${count} `}${unit}${count === 1 ? '' : 's'}`;
}

export function describeRange(range: Range): string {
  if (range.kind === 'last') return nameOf(range.length);
  const whole = (milliseconds: number) => formatInstant(Math.round(milliseconds / 1000) * 1000, zone.value);
  const from = whole(range.from);
  const to = whole(range.to);
  return `${from} – ${from.slice(0, 10) === to.slice(0, 10) ? to.slice(11) : to}`;
}

export function TimePicker({ range, onChange }: Props): JSX.Element {
  return (
    <div class="time-picker" role="group" aria-label="Time range">
      <button
        type="button"
        class="button"
        aria-label="Earlier"
        title="Earlier"
        onClick={() => onChange(moved(range, -0.5, Date.now()))}
      >
        <span class="flip">
          <Icon name="chevron" />
        </span>
      </button>
      <Menu label="Choose the time range" icon="clock" text={describeRange(range)} align="end">
        {(close) => (
          <Panel
            range={range}
            onChange={(next) => {
              onChange(next);
              close();
            }}
          />
        )}
      </Menu>
      <button
        type="button"
        class="button"
        aria-label="Later"
        title="Later"
        onClick={() => onChange(moved(range, 0.5, Date.now()))}
      >
        <Icon name="chevron" />
      </button>
      <button
        type="button"
        class="button"
        aria-label="Zoom out"
        title="Zoom out"
        onClick={() => onChange(scaled(range, 2, Date.now()))}
      >
        <Icon name="out" />
      </button>
    </div>
  );
}

function Panel({ range, onChange }: Props): JSX.Element {
  const bounds = boundsOf(range, Date.now());
  const where = zone.value;
  const [from, setFrom] = useState(formatInstant(bounds.from, where));
  const [to, setTo] = useState(formatInstant(bounds.to, where));
  const [length, setLength] = useState('');
  const first = parseInstant(from, where);
  const last = parseInstant(to, where);
  const fault =
    first === null || last === null
      ? 'Expected a date, such as 2026-01-31 or 2026-01-31 08:00.'
      : last <= first
        ? 'The end must be after the beginning.'
        : null;
  return (
    <div class="time-panel">
      <div class="time-relative">
        {relative.map((text) => (
          <button
            key={text}
            type="button"
            class="menu-item"
            aria-pressed={range.kind === 'last' && range.length === text}
            onClick={() => onChange({ kind: 'last', length: text })}
          >
            {nameOf(text)}
          </button>
        ))}
      </div>
      <form
        class="time-absolute"
        onSubmit={(event) => {
          event.preventDefault();
          if (lengthOf(length) !== null) onChange({ kind: 'last', length: length.trim() });
          else if (first !== null && last !== null && fault === null)
            onChange({ kind: 'between', from: first, to: last });
        }}
      >
        <label>
          Last
          <input
            placeholder="90m, 36h, 14d"
            value={length}
            onInput={(event) => setLength(event.currentTarget.value)}
          />
        </label>
        <p class="time-or">or between, in {where === 'utc' ? 'UTC' : 'local time'}</p>
        <label>
          From
          <input value={from} onInput={(event) => setFrom(event.currentTarget.value)} />
        </label>
        <label>
          To
          <input value={to} onInput={(event) => setTo(event.currentTarget.value)} />
        </label>
        {fault && lengthOf(length) === null && (
          <p class="time-fault" role="alert">
            {fault}
          </p>
        )}
        <button type="submit" class="button primary">
          Apply
        </button>
      </form>
    </div>
  );
}
