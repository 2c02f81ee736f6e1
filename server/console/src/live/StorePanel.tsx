/** Requests to the store and their price, the log that is not folded yet, files, compaction, disk cache. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import type { NodeFigures } from '../api/node';
import { formatBytes, formatCount, formatDuration, formatValue } from '../chart/units';
import { linkTo } from '../shell/route';
import { DataTable } from '../widgets/DataTable';
import { Field } from '../widgets/Fields';
import { costsOf, loadPrices, parsePrice, standard, storePrices, totalOf, type Prices } from './cost';
import { Figure } from './Overview';
import { rings } from './stream';

export function StorePanel({ node }: { node: NodeFigures }): JSX.Element {
  return (
    <div class="live-panel">
      <Costs node={node} />
      <h2>Log that is not folded yet</h2>
      <Unfolded {...node.log} />
      <p>
        <a href={linkTo('data')}>Fold and merge on the page Data</a>
      </p>
      <h2>Files</h2>
      <Totals values={node.files} />
      <h2>Compaction since the start</h2>
      <Totals values={node.compaction} />
      <h2>Disk cache</h2>
      {node.disk_cache === null ? (
        <p>
          None. The setting <code>disk_cache</code> keeps blocks of files on a local disk, which saves GET
          requests.
        </p>
      ) : (
        <Totals values={node.disk_cache} />
      )}
    </div>
  );
}

function Unfolded({ segments, bytes, oldest_seconds: oldest }: NodeFigures['log']): JSX.Element {
  if (segments === null || bytes === null) return <p>The store does not answer.</p>;
  return (
    <dl class="figures">
      <Figure name="Segments">{formatCount(segments)}</Figure>
      <Figure name="Bytes">{formatBytes(bytes)}</Figure>
      <Figure name="Oldest">{oldest === null ? 'none' : `${formatDuration(oldest, 3)} ago`}</Figure>
    </dl>
  );
}

/** Totals by their names in the answer, such as `fold_rows_total`. */
function Totals({ values }: { values: Record<string, number> }): JSX.Element {
  return (
    <dl class="figures">
      {Object.entries(values).map(([name, value]) => (
        <Figure key={name} name={name.replace(/_total$/, '').replaceAll('_', ' ')}>
          {name.includes('bytes') ? formatBytes(value) : formatCount(value)}
        </Figure>
      ))}
    </dl>
  );
}

function dollars(value: number): string {
  return value.toFixed(value > 0 && value < 1 ? 4 : 2);
}

function Costs({ node }: { node: NodeFigures }): JSX.Element {
  const [prices, setPrices] = useState(loadPrices);
  const [texts, setTexts] = useState({ write: String(prices.write), read: String(prices.read) });
  const kinds = Object.keys(node.store.requests);
  const costs = costsOf(new Map(kinds.map((kind) => [kind, rings.store.mean(kind)])), prices);

  const edit = (name: keyof Prices, text: string) => {
    setTexts({ ...texts, [name]: text });
    const price = parsePrice(text);
    if (price === null) return;
    const next = { ...prices, [name]: price };
    setPrices(next);
    storePrices(next);
  };
  const hint = (name: keyof Prices) =>
    parsePrice(texts[name]) === null ? 'Write a number of USD, such as 0.005.' : 'USD per 1 000 requests';

  return (
    <section aria-label="Requests to the store">
      <h2>Requests to the store</h2>
      <p>
        {node.store.name} · sent {formatBytes(node.store.sent_bytes)}, received{' '}
        {formatBytes(node.store.received_bytes)} since the start
        {node.store.full !== null && (
          <strong>
            {' '}
            · no space left: {node.store.full}. Free space or raise the quota; writes are refused until then.
          </strong>
        )}
      </p>
      <div class="form-row">
        <Field
          label="Price of PUT and LIST"
          value={texts.write}
          hint={hint('write')}
          onChange={(text) => edit('write', text)}
        />
        <Field
          label="Price of GET and HEAD"
          value={texts.read}
          hint={hint('read')}
          onChange={(text) => edit('read', text)}
        />
        <button
          type="button"
          class="button"
          onClick={() => {
            setPrices(standard);
            setTexts({ write: String(standard.write), read: String(standard.read) });
            storePrices(standard);
          }}
        >
          Prices of S3 Standard, us-east-1
        </button>
      </div>
      <DataTable
        label="Cost of requests"
        columns={[
          { name: 'Kind', cell: (cost) => cost.kind.toUpperCase() },
          {
            name: 'Since the start',
            number: true,
            cell: (cost) => formatCount(node.store.requests[cost.kind] ?? 0),
          },
          { name: 'Requests/s', number: true, cell: (cost) => formatValue(cost.rate, 'none', 3) },
          { name: 'USD a month', number: true, cell: (cost) => dollars(cost.month) },
        ]}
        rows={costs}
        keyOf={(cost) => cost.kind}
        empty="No requests yet."
        foot={
          <>
            <strong>Estimate: {dollars(totalOf(costs))} USD a month</strong> of 30 days at the mean rate of at
            most the last ten minutes of this page, for the requests of this node alone; without storage,
            transfer and free quotas.
            {/^(file:|directory)/.test(node.store.name) &&
              ' This store is a directory, whose requests cost nothing.'}
          </>
        }
      />
    </section>
  );
}
