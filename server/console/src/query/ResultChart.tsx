/** A result as lines: the first instant is the axis, numbers are lines, the first text names them. */
import type { JSX } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import { formatInstant, zone } from '../chart/instant';
import { Legend } from '../chart/Legend';
import { Plot, type Style } from '../chart/Plot';
import { align, type Line, type Point } from '../chart/series';
import { formatCount } from '../chart/units';
import type { Result } from '../table/result';
import { Empty } from '../widgets/Notice';

/** Rows and lines beyond these are not drawn: no screen shows them. */
const mostRows = 200_000;
const mostLines = 50;

interface Drawn {
  lines: Line[];
  /** The number of lines in the drawn rows. */
  found: number;
}

export function linesOfResult(result: Result, rowCount: number): Drawn | null {
  const time = result.columns.findIndex((column) => column.kind === 'time');
  const key = result.columns.findIndex((column) => column.kind === 'text');
  const numbers = result.columns.flatMap((column, index) => (column.kind === 'number' ? [index] : []));
  if (time < 0 || numbers.length === 0) return null;
  const drawn = new Map<string, Point[]>();
  const others = new Set<string>();
  for (let row = 0; row < Math.min(rowCount, mostRows); row++) {
    const at = result.number(row, time);
    if (at === null) continue;
    const prefix = key < 0 ? '' : (result.text(row, key, 'utc') ?? 'NULL');
    for (const index of numbers) {
      const field = result.columns[index]?.name ?? '';
      const name = prefix === '' ? field : numbers.length > 1 ? `${prefix} ${field}` : prefix;
      let points = drawn.get(name);
      if (!points) {
        if (drawn.size >= mostLines) {
          others.add(name);
          continue;
        }
        points = [];
        drawn.set(name, points);
      }
      points.push({ time: at, value: result.number(row, index) });
    }
  }
  const lines = [...drawn].map(([name, points]) => ({ name, points, earlier: false }));
  return { lines, found: lines.length + others.size };
}

/** What a chart leaves out; `null` if it shows all. */
export function omission(rowCount: number, found: number): string | null {
  const rows = `the first ${formatCount(mostRows)} of ${formatCount(rowCount)} rows`;
  if (rowCount > mostRows) {
    // The lines of further rows are not known.
    const lines =
      found > mostLines ? `, and of their ${formatCount(found)} lines the first ${mostLines},` : '';
    return `Only ${rows}${lines} are drawn`;
  }
  return found > mostLines ? `Only the first ${mostLines} of ${formatCount(found)} lines are drawn` : null;
}

export function ResultChart({ result, rowCount }: { result: Result; rowCount: number }): JSX.Element {
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set());
  const [point, setPoint] = useState<number | null>(null);
  const [zoom, setZoom] = useState<{ from: number; to: number } | null>(null);
  const drawn = useMemo(() => linesOfResult(result, rowCount), [result, rowCount]);
  const data = useMemo(() => align(drawn?.lines ?? [], 1), [drawn]);
  if (!drawn || data.times.length === 0) {
    return (
      <Empty title="No chart of this result">
        <p>
          A chart needs a column with instants and one with numbers, such as SELECT _wstart, avg(x) …
          INTERVAL(1m).
        </p>
      </Empty>
    );
  }
  const omitted = omission(rowCount, drawn.found);
  const styles: Style[] = drawn.lines.map((line, index) => ({
    name: line.name,
    colour: `--line-${(index % 10) + 1}`,
    earlier: false,
    shown: !hidden.has(line.name),
  }));
  const whole = { from: data.times[0] ?? 0, to: (data.times.at(-1) ?? 0) + 1 };
  const ends = zoom ?? whole;
  const time = point === null ? undefined : data.times[point];
  return (
    <div class="result-chart">
      <div class="chart-bar">
        <span class="chart-status">{time === undefined ? '' : formatInstant(time, zone.value)}</span>
        {omitted && (
          <span class="chart-status" role="note">
            {omitted}
          </span>
        )}
        {zoom && (
          <button type="button" class="button" onClick={() => setZoom(null)}>
            Show all
          </button>
        )}
      </div>
      <Plot
        label="Chart of the result"
        data={data}
        styles={styles}
        {...ends}
        unit="none"
        log={false}
        onZoom={(from, to) => setZoom({ from, to })}
        onPoint={setPoint}
        onKey={(pressed) => {
          const half = (ends.to - ends.from) / 4;
          if (pressed === '+' || pressed === '=') setZoom({ from: ends.from + half, to: ends.to - half });
          else if (pressed === '-') setZoom(null);
          else return false;
          return true;
        }}
        onWidth={() => undefined}
      />
      <Legend
        styles={styles}
        values={data.values}
        unit="none"
        point={point}
        onToggle={(name) => {
          const next = new Set(hidden);
          if (!next.delete(name)) next.add(name);
          setHidden(next);
        }}
      />
    </div>
  );
}
