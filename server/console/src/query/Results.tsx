/** What came of the statements: one tab for each of them. */
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { formatBytes, formatCount, formatDuration } from '../chart/units';
import { VirtualTable } from '../table/VirtualTable';
import { Empty, ErrorNotice, Loading } from '../widgets/Notice';
import { Tabs } from '../widgets/Tabs';
import { ExportMenu } from './ExportMenu';
import { PlanView } from './PlanView';
import { ResultChart } from './ResultChart';
import { runs, type Run } from './run';

type Shape = 'table' | 'chart' | 'plan';

const shapes = [
  ['table', 'Table'],
  ['chart', 'Chart'],
  ['plan', 'Plan'],
] as const;

export function Results(): JSX.Element {
  const [at, setAt] = useState(0);
  const [shape, setShape] = useState<Shape>('table');
  const all = runs.value;
  useEffect(() => setAt(all.length - 1), [all.length]);
  const run = all[at] ?? all.at(-1);
  if (!run) {
    return (
      <Empty title="Write a statement">
        <p>
          <kbd>Ctrl Enter</kbd> runs the statement at the cursor, <kbd>Ctrl Shift Enter</kbd> all of them. A
          click on a table of the catalog adds a SELECT.
        </p>
      </Empty>
    );
  }
  return (
    <div class="results">
      {all.length > 1 && (
        <div class="runs" role="group" aria-label="Statements">
          {all.map((one, index) => (
            <button
              key={one.key}
              type="button"
              class="button"
              aria-pressed={one === run}
              onClick={() => setAt(index)}
            >
              {index + 1}: {one.statement.sql.slice(0, 24)}
            </button>
          ))}
        </div>
      )}
      <Tabs
        label="Result"
        value={shape}
        tabs={shapes}
        onChange={setShape}
        aside={<Status key={run.key} run={run} />}
      >
        {shape === 'plan' ? <PlanView run={run} /> : <Body run={run} shape={shape} />}
      </Tabs>
    </div>
  );
}

function Body({ run, shape }: { run: Run; shape: Shape }): JSX.Element {
  if (run.error) return <ErrorNotice error={run.error} />;
  const { result } = run;
  if (!result) {
    if (run.state === 'cancelled') return <Empty title="Cancelled" />;
    return <Waiting run={run} />;
  }
  if (shape === 'chart') return <ResultChart result={result} rowCount={run.rowCount} />;
  if (run.rowCount === 0) {
    if (run.state === 'running') return <Waiting run={run} />;
    return (
      <Empty title="No rows">
        <p>
          The columns are {result.columns.map((column) => column.name).join(', ')}. Check the conditions of
          the statement.
        </p>
      </Empty>
    );
  }
  return <VirtualTable result={result} rowCount={run.rowCount} label="Rows of the result" />;
}

/** What the server has read while there are no rows yet. */
function Waiting({ run }: { run: Run }): JSX.Element {
  const { progress } = run;
  if (!progress || progress.rows_to_read === 0) return <Loading text="Waiting for the first rows" />;
  const { rows_read: read, rows_to_read: all, bytes_read: bytes } = progress;
  return (
    <div class="loading progress">
      <progress max={all} value={read} aria-label="Rows read" />
      <span>
        {formatCount(read)} of {formatCount(all)} rows read · {formatBytes(bytes)}
      </span>
    </div>
  );
}

/** Rows, bytes and time, which grow while the answer arrives. */
function Status({ run }: { run: Run }): JSX.Element {
  const [now, setNow] = useState(performance.now());
  const going = run.state === 'running';
  useEffect(() => {
    if (!going) return;
    const timer = setInterval(() => setNow(performance.now()), 100);
    return () => clearInterval(timer);
  }, [going]);
  const seconds = (going ? Math.max(0, now - run.started) : run.milliseconds) / 1000;
  const running = run.progress?.state === 'waiting' ? 'Waits for other queries' : 'Running';
  const state = { running, done: '', failed: 'Failed', cancelled: 'Cancelled' }[run.state];
  const parts = [
    state,
    run.result ? `${formatCount(run.rowCount)} rows${run.truncated ? ', there are more' : ''}` : '',
    run.bytes > 0 ? formatBytes(run.bytes) : '',
    going && run.progress ? `${formatCount(run.progress.rows_read)} rows read` : '',
    formatDuration(seconds, 3),
  ];
  return (
    <>
      <span class="run-status" role="status">
        {going && <span class="spinner" aria-hidden="true" />}
        {parts.filter((part) => part !== '').join(' · ')}
      </span>
      <span class="run-id" title="ID of the query, as in SHOW QUERIES">
        {run.id}
      </span>
      {run.state === 'done' && <ExportMenu statement={run.statement} />}
      {run.notice && <span class="tree-hint">{run.notice}</span>}
    </>
  );
}
