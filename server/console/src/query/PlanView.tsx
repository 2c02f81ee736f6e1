/** EXPLAIN ANALYZE of a statement as a tree, with what each node took. */
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { isAbort, toApiError, type ApiError } from '../api/errors';
import { rows } from '../api/sql';
import { formatBytes, formatCount, formatDuration } from '../chart/units';
import { Empty, ErrorNotice, Loading } from '../widgets/Notice';
import { isQuery } from './ExportMenu';
import { flatten, parsePlan, totalsOf, type Level, type PlanNode } from './plan';
import type { Run } from './run';

const explained = /^\s*explain\b/i;

export function PlanView({ run }: { run: Run }): JSX.Element {
  const [text, setText] = useState<string | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const { sql } = run.statement;

  useEffect(() => {
    setText(null);
    setError(null);
    if (!isQuery(sql)) return;
    const abort = new AbortController();
    const prefix = explained.test(sql) ? '' : 'EXPLAIN ANALYZE ';
    rows({ ...run.statement, sql: `${prefix}${sql}` }, abort.signal).then(
      (data) => setText(String(data.at(-1)?.[1] ?? '')),
      (thrown: unknown) => {
        if (!isAbort(thrown)) setError(toApiError(thrown));
      },
    );
    return () => abort.abort();
  }, [run.key]);

  if (!isQuery(sql)) {
    return (
      <Empty title="No plan">
        <p>Only queries have a plan; this statement would be executed a second time.</p>
      </Empty>
    );
  }
  if (error) return <ErrorNotice error={error} />;
  if (text === null) return <Loading text="Running EXPLAIN ANALYZE" />;
  return <PlanTable nodes={flatten(parsePlan(text))} />;
}

function PlanTable({ nodes }: { nodes: PlanNode[] }): JSX.Element {
  const most = Math.max(1e-9, ...nodes.map((node) => node.seconds ?? 0));
  const totals = totalsOf(nodes);
  const read = totals.levels.filter((level) => level.rows > 0);
  return (
    <div class="plan" tabIndex={0} role="region" aria-label="Plan of the query">
      <p class="plan-totals">
        {formatCount(totals.requests)} requests to the store, {formatBytes(totals.bytes)}
        {read.length > 0 && <>. Answered from {read.map(describeLevel).join(', ')}</>}
      </p>
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
    </div>
  );
}

function describeLevel(level: Level): string {
  const names = { manifests: 'tag manifests', rollups: 'rollups', rows: 'rows' };
  return `${names[level.name]} (${formatCount(level.rows)} rows in ${formatCount(level.chunks)} chunks)`;
}
