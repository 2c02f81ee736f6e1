/** A chart with its controls, its legend and its statement. */
import type { JSX } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { isAbort, toApiError, type ApiError } from '../api/errors';
import { formatInstant, zone } from '../chart/instant';
import { Legend } from '../chart/Legend';
import { Plot, type Style } from '../chart/Plot';
import { moved, scaled } from '../chart/range';
import { matrix } from '../chart/series';
import { TimePicker } from '../chart/TimePicker';
import { formatCount, formatDuration, formatValue } from '../chart/units';
import { Choice } from '../widgets/Choice';
import { ErrorNotice, Loading } from '../widgets/Notice';
import { Controls } from './Controls';
import { loadChart, plan, take, type Ahead, type Chart, type Facts } from './data';
import { StatementPanel } from './StatementPanel';
import type { View } from './state';

interface Props {
  view: View;
  facts: Facts;
  /** The chart that the page begins with, if its statement is that of the page. */
  first: Ahead | null;
  onChange: (view: View, replace?: boolean) => void;
}

const colours = 10;

/** The interval of automatic repetition in seconds, as the list shows it. */
const intervals = [
  ['0', 'Off'],
  ['5', '5 s'],
  ['30', '30 s'],
  ['60', '1 min'],
] as const;

export function ChartPage({ view, facts, first, onChange }: Props): JSX.Element {
  const [taken] = useState(() => take(first));
  const [chart, setChart] = useState<Chart | null>(taken?.chart ?? null);
  const [error, setError] = useState<ApiError | null>(null);
  const [busy, setBusy] = useState(false);
  const [pixels, setPixels] = useState(0);
  const [point, setPoint] = useState<number | null>(null);
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set());
  const [tick, setTick] = useState(0);
  const [asTable, setAsTable] = useState(false);
  const width = useRef(0);
  const begun = useRef(taken);
  const key = JSON.stringify(view);

  // Before the page is painted: the statement runs meanwhile.
  useLayoutEffect(() => {
    if (pixels === 0 || view.fields.length === 0) return;
    const abort = new AbortController();
    const ahead = begun.current;
    begun.current = null;
    abort.signal.addEventListener('abort', () => ahead?.abort.abort());
    setBusy(true);
    setError(null);
    plan(view, facts, pixels)
      .then((planned) => {
        if (ahead?.statement === planned.statement) return ahead.loaded;
        ahead?.abort.abort();
        return loadChart(view, planned, abort.signal);
      })
      .then((loaded) => {
        if (abort.signal.aborted) return;
        setChart(loaded);
        setBusy(false);
      })
      .catch((thrown: unknown) => {
        if (abort.signal.aborted || isAbort(thrown)) return;
        setError(toApiError(thrown));
        setBusy(false);
      });
    return () => abort.abort();
  }, [key, facts, pixels, tick]);

  useEffect(() => {
    if (view.refresh === 0) return;
    const timer = setInterval(() => {
      if (document.visibilityState === 'visible') setTick((now) => now + 1);
    }, view.refresh * 1000);
    return () => clearInterval(timer);
  }, [view.refresh]);

  const names = [...new Set((chart?.lines ?? []).map((line) => line.name.replace(/, day before$/, '')))];
  const styles: Style[] = (chart?.lines ?? []).map((line) => ({
    name: line.name,
    colour: `--line-${(names.indexOf(line.name.replace(/, day before$/, '')) % colours) + 1}`,
    earlier: line.earlier,
    shown: !hidden.has(line.name),
  }));

  const toggle = (name: string, only: boolean) => {
    if (only) {
      setHidden(new Set(styles.map((style) => style.name).filter((other) => other !== name)));
      return;
    }
    const next = new Set(hidden);
    if (!next.delete(name)) next.add(name);
    setHidden(next);
  };

  const onKey = (pressed: string): boolean => {
    const now = Date.now();
    if (pressed === '+' || pressed === '=') onChange({ ...view, range: scaled(view.range, 0.5, now) });
    else if (pressed === '-') onChange({ ...view, range: scaled(view.range, 2, now) });
    else if (pressed === 'ArrowLeft') onChange({ ...view, range: moved(view.range, -0.25, now) });
    else if (pressed === 'ArrowRight') onChange({ ...view, range: moved(view.range, 0.25, now) });
    else return false;
    return true;
  };

  const empty = chart !== null && chart.lines.length === 0 && !error;

  return (
    <>
      <div class="explore-head">
        <h1>
          <span>{view.database}</span> {view.table}
        </h1>
        <div class="explore-time">
          <Choice
            label="Refresh"
            value={intervals.find(([seconds]) => Number(seconds) === view.refresh)?.[0] ?? '0'}
            options={intervals}
            onChange={(seconds) => onChange({ ...view, refresh: Number(seconds) }, true)}
          />
          <TimePicker range={view.range} onChange={(range) => onChange({ ...view, range })} />
        </div>
      </div>
      <Controls view={view} columns={facts.columns} onChange={onChange} />
      <section class="chart" aria-label="Chart" aria-busy={busy}>
        <div class="chart-bar">
          <span role="status" class="chart-status">
            {busy && <span class="spinner" aria-hidden="true" />}
            {chart && (
              <>
                Windows of {chart.window.text} · {formatCount(chart.rowCount)} rows in{' '}
                {formatDuration(chart.milliseconds / 1000, 3)}
                {chart.limited && view.group !== null && (
                  <>
                    {' '}
                    · the {view.top} largest of {view.group}
                  </>
                )}
                {point !== null && chart.aligned.times[point] !== undefined && (
                  <> · {formatInstant(chart.aligned.times[point], zone.value)}</>
                )}
              </>
            )}
          </span>
          <button type="button" class="button" aria-pressed={asTable} onClick={() => setAsTable(!asTable)}>
            As table
          </button>
        </div>
        {error && <ErrorNotice error={error} retry={() => setTick(tick + 1)} />}
        {!chart && !error && view.fields.length > 0 && pixels > 0 && <Loading text="Loading the chart" />}
        {view.fields.length === 0 && <p class="chart-empty">Choose a field above.</p>}
        {empty && (
          <p class="chart-empty">
            No rows in this time with these filters.{' '}
            <button
              type="button"
              class="button"
              onClick={() => onChange({ ...view, filters: [], range: scaled(view.range, 4, Date.now()) })}
            >
              Zoom out and clear filters
            </button>
          </p>
        )}
        {asTable && chart ? (
          <ChartTable chart={chart} view={view} />
        ) : (
          <Plot
            label={`${view.aggregate} of ${view.fields.join(', ')} in ${view.table}. Plus and minus zoom, arrows move; As table shows the numbers.`}
            data={chart?.aligned ?? nothing}
            styles={styles}
            from={chart?.bounds.from ?? 0}
            to={chart?.bounds.to ?? 1}
            unit={view.unit}
            log={view.log}
            onZoom={(from, to) => onChange({ ...view, range: { kind: 'between', from, to } })}
            onPoint={setPoint}
            onKey={onKey}
            onWidth={(next) => {
              // Small changes, such as a scroll bar, need no other window.
              if (Math.abs(next - width.current) < 60) return;
              width.current = next;
              setPixels(next);
            }}
          />
        )}
      </section>
      {chart && styles.length > 0 && (
        <Legend
          styles={styles}
          values={chart.aligned.values}
          unit={view.unit}
          point={point}
          onToggle={toggle}
        />
      )}
      {chart && <StatementPanel sql={chart.statement} compared={view.compare} />}
    </>
  );
}

const nothing = { times: [], values: [] };

function ChartTable({ chart, view }: { chart: Chart; view: View }): JSX.Element {
  return (
    <div class="chart-table" tabIndex={0} role="region" aria-label="Numbers of the chart">
      <table>
        <thead>
          <tr>
            <th scope="col">time</th>
            {chart.lines.map((line) => (
              <th scope="col" key={line.name}>
                {line.name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {matrix(chart.aligned).map((row) => (
            <tr key={row.time} data-time={row.time}>
              <th scope="row">{formatInstant(row.time, zone.value)}</th>
              {row.values.map((value, index) => (
                <td key={index} data-value={value ?? ''}>
                  {formatValue(value, view.unit)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
