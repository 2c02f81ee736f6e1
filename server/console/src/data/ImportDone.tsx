/** What an import wrote, and where to see it. */
import type { JSX } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import type { Imported } from '../api/import';
import { quoteTable } from '../catalog/names';
import { counted, formatCount } from '../chart/units';
import { linkTo } from '../shell/route';
import { Icon } from '../widgets/icons';

export function ImportDone(props: { done: Imported; database: string; table: string }): JSX.Element {
  const { done, database, table } = props;
  const title = useRef<HTMLHeadingElement>(null);
  useEffect(() => title.current?.focus(), []);
  const select = table === '' ? '' : `SELECT * FROM ${quoteTable(database, table)} LIMIT 100`;
  const place = table === '' ? {} : { db: database, table };
  return (
    <section class="result-note import-done" aria-label="Result of the import">
      <h2 ref={title} tabIndex={-1}>
        {counted(done.written, 'row')} written
      </h2>
      <p>
        {formatCount(done.replaced)} replaced, {formatCount(done.refused)} refused.
      </p>
      {done.notices.map((notice) => (
        <p key={notice}>{notice}</p>
      ))}
      <div class="actions">
        <a class="button primary" href={linkTo('explore', new URLSearchParams(place))}>
          <Icon name="chart" /> Chart
        </a>
        <a
          class="button"
          href={linkTo(
            'query',
            new URLSearchParams(select === '' ? { db: database } : { sql: select, db: database }),
          )}
        >
          <Icon name="query" /> Query
        </a>
        <a class="button" href={linkTo('data', new URLSearchParams(place))}>
          <Icon name="database" /> Files
        </a>
      </div>
    </section>
  );
}
