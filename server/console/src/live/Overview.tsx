/** Rates of the last ten minutes, memory, process, queue. */
import type { ComponentChildren, JSX } from 'preact';
import type { NodeFigures } from '../api/node';
import { Plot, type Style } from '../chart/Plot';
import { formatBytes, formatCount, formatValue } from '../chart/units';
import { capacity } from './ring';
import { rates, rings, type Chart } from './stream';

/** Lines of a chart: more cannot be told apart. */
const mostLines = 6;

const titles: readonly (readonly [Chart, string, string])[] = [
  ['protocols', 'Rows written by protocol', 'rows/s'],
  ['tables', 'Rows written by table', 'rows/s'],
  ['queries', 'Queries', 'queries/s'],
  ['store', 'Requests to the store', 'requests/s'],
];

export function Overview({ node }: { node: NodeFigures }): JSX.Element {
  const { queries, connections, process } = node;
  const used = rates.value?.processor ?? null;
  return (
    <div class="live-panel">
      <dl class="figures" aria-label="Figures">
        <Figure name="Queries">
          {of(queries.running, queries.running_limit)} running, {of(queries.waiting, queries.waiting_limit)}{' '}
          waiting
          {queries.stalled > 0 && `, ${formatCount(queries.stalled)} stalled`}
          {queries.planning > 0 && `, ${formatCount(queries.planning)} planning`}
        </Figure>
        <Figure name="Connections">{of(connections.open, connections.limit)}</Figure>
        <Figure name="Processors">
          {used === null ? '–' : formatValue(used, 'ratio', 3)} of {process.processors ?? '–'}
        </Figure>
        <Figure name="Resident memory">{bytes(process.resident_bytes)}</Figure>
        <Figure name="Threads">{process.threads ?? '–'}</Figure>
        <Figure name="Open files">{process.open_files ?? '–'}</Figure>
        <Figure name="Rows since the start">{formatCount(node.ingest['rows_total'] ?? 0)}</Figure>
        <Figure name="Rejected rows">{formatCount(node.ingest['rejected_total'] ?? 0)}</Figure>
        <Figure name="Throttled requests">{formatCount(node.ingest['throttled_total'] ?? 0)}</Figure>
        <Figure name="Lost rows">{formatCount(node.ingest['lost_rows_total'] ?? 0)}</Figure>
      </dl>
      <div class="live-charts">
        {titles.map(([chart, title, unit]) => (
          <LiveChart key={chart} chart={chart} title={title} unit={unit} />
        ))}
      </div>
      <section aria-label="Memory">
        <h2>Memory</h2>
        <ul class="pools">
          {node.memory.map((pool) => (
            <Pool key={pool.pool} name={pool.pool} used={pool.used_bytes} limit={pool.limit_bytes} />
          ))}
        </ul>
      </section>
    </div>
  );
}

function of(count: number, limit: number | null): string {
  return limit === null ? formatCount(count) : `${formatCount(count)} of ${formatCount(limit)}`;
}

function bytes(value: number | null): string {
  return value === null ? '–' : formatBytes(value);
}

export function Figure({ name, children }: { name: string; children: ComponentChildren }): JSX.Element {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function Pool({ name, used, limit }: { name: string; used: number; limit: number | null }): JSX.Element {
  const part = limit === null || limit === 0 ? null : Math.min(1, used / limit);
  return (
    <li>
      <span>{name.replaceAll('_', ' ')}</span>
      <span class="track" aria-hidden="true">
        <span
          class={part !== null && part > 0.9 ? 'fill fill-full' : 'fill'}
          style={{ width: `${(part ?? 0) * 100}%` }}
        />
      </span>
      <span>
        {formatBytes(used)}
        {limit !== null && ` of ${formatBytes(limit)}`}
        {part !== null && ` (${formatValue(part, 'ratio', 2)})`}
      </span>
    </li>
  );
}

function LiveChart({ chart, title, unit }: { chart: Chart; title: string; unit: string }): JSX.Element {
  const ring = rings[chart];
  const names = ring.largest(mostLines);
  const data = ring.lines(names);
  const to = data.times.at(-1) ?? Date.now();
  const styles: Style[] = names.map((name, index) => ({
    name,
    colour: `--line-${index + 1}`,
    earlier: false,
    shown: true,
  }));
  return (
    <section class="live-chart" aria-label={title}>
      <h2>
        {title} <span>{unit}</span>
      </h2>
      <Plot
        label={`${title} in the last ten minutes, in ${unit}; the list below has the newest values`}
        data={data}
        styles={styles}
        from={to - capacity * 1000}
        to={to}
        unit="none"
        log={false}
        zero
      />
      <ul class="live-legend">
        {styles.map((style) => (
          <li key={style.name}>
            <span class="swatch" style={{ borderColor: `var(${style.colour})` }} />
            <span class="live-name" title={style.name}>
              {style.name}
            </span>
            <span>{formatValue(ring.latest(style.name), 'none', 3)}</span>
          </li>
        ))}
        {styles.length === 0 && <li>Nothing yet</li>}
      </ul>
    </section>
  );
}
