/** The plan of a statement as a tree; on request EXPLAIN ANALYZE, with what each node took. */
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { isAbort, toApiError, type ApiError } from '../api/errors';
import { rows, type Statement } from '../api/sql';
import { formatBytes, formatCount, formatDuration } from '../chart/units';
import { Empty, ErrorNotice, Loading } from '../widgets/Notice';
import { isQuery } from './ExportMenu';
import { flatten, parsePlan, totalsOf, type Level, type PlanNode } from './plan';
import type { Run } from './run';

const explained = /^\s*explain\b/i;

/** Measured plans, by the statement that was run: the tabs of a result are opened again and again. */
const measured = new WeakMap<Statement, string>();

export function PlanView({ run }: { run: Run }): JSX.Element {
  const [text, setText] = useState<string | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  /** Whether the statement shall run again, to measure it. */
  const [analyze, setAnalyze] = useState(false);
  const { statement } = run;
  const { sql } = statement;

  useEffect(() => setAnalyze(false), [run.key]);
  useEffect(() => {
    const known = measured.get(statement);
    setText(known ?? null);
    setError(null);
    if (!isQuery(sql) || known !== undefined) return;
    const abort = new AbortController();
    const prefix = explained.test(sql) ? '' : analyze ? 'EXPLAIN ANALYZE ' : 'EXPLAIN ';
    rows({ ...statement, sql: `${prefix}${sql}` }, abort.signal).then(
      (data) => {
        const plan = String(data.at(-1)?.[1] ?? '');
        if (analyze) measured.set(statement, plan);
        setText(plan);
      },
      (thrown: unknown) => {
        if (!isAbort(thrown)) setError(toApiError(thrown));
      },
    );
    return () => abort.abort();
  }, [run.key, analyze]);

  if (!isQuery(sql)) {
    return (
      <Empty title="No plan">
        <p>Only queries have a plan; this statement would be executed a second time.</p>
      </Empty>
    );
  }
  if (error) return <ErrorNotice error={error} />;
  if (text === null) return <Loading text={analyze ? 'Running EXPLAIN ANALYZE' : 'Loading the plan'} />;
  const nodes = flatten(parsePlan(text));
  return (
    <div class="plan" tabIndex={0} role="region" aria-label="Plan of the query">
      {nodes.some((node) => node.seconds !== null) ? (
        <Measured nodes={nodes} />
      ) : (
        <p class="plan-totals">
          The plan, without running the statement.{' '}
          {!explained.test(sql) && (
            <button type="button" class="button" onClick={() => setAnalyze(true)}>
              Run the statement again and measure it
            </button>
          )}
        </p>
      )}
      <PlanTable nodes={nodes} />
    </div>
  );
}

/** What EXPLAIN ANALYZE measured in all nodes together. */
function Measured({ nodes }: { nodes: PlanNode[] }): JSX.Element {
  const totals = totalsOf(nodes);
  const read = totals.levels.filter((level) => level.rows > 0);
  return (
    <p class="plan-totals">
      {formatCount(totals.requests)} requests to the store, {formatBytes(totals.bytes)}
      {read.length > 0 && <>. Answered from {read.map(describeLevel).join(', ')}</>}
    </p>
  );
}

function PlanTable({ nodes }: { nodes: PlanNode[] }): JSX.Element {
  const most = Math.max(1e-9, ...nodes.map((node) => node.seconds ?? 0));
  return (
    <table>
      <thead>
        <tr>
          <th scope="col">Node</th>
          <th scope="col">Compute</th>
          <th scope="col">Rows</th>
          <th scope="col">Requests</th>
          <th scope="col">Bytes</th>
        </tr>
      </thead>
      <tbody>
        {nodes.map((node, index) => (
          <tr key={index}>
            <th scope="row" style={{ paddingLeft: `${8 + node.depth * 12}px` }}>
              {node.name}
              {node.levels.some((level) => level.rows > 0) && (
                <span class="plan-level">
                  {node.levels
                    .filter((level) => level.rows > 0)
                    .map(describeLevel)
                    .join(', ')}
                </span>
              )}
              <span class="plan-detail">{node.detail}</span>
            </th>
            <td>
              {node.seconds === null ? '' : formatDuration(node.seconds, 3)}
              <span class="bar" style={{ width: `${((node.seconds ?? 0) / most) * 100}%` }} />
            </td>
            <td>{node.rows === null ? '' : formatCount(node.rows)}</td>
            <td>{node.requests ?? ''}</td>
            <td>{node.bytes === null ? '' : formatBytes(node.bytes)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function describeLevel(level: Level): string {
  const names = { manifests: 'tag manifests', rollups: 'rollups', rows: 'rows' };
  return `${names[level.name]} (${formatCount(level.rows)} rows in ${formatCount(level.chunks)} chunks)`;
}
