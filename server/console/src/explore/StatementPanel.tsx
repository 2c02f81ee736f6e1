/** The statement behind a chart, to copy and to edit. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { session } from '../api/session';
import { linkTo } from '../shell/route';
import { CopyButton } from '../widgets/CopyButton';
import { Icon } from '../widgets/icons';
import { Tabs } from '../widgets/Tabs';
import { originOf, snippet, snippetNames, type SnippetKind } from './snippets';

const kinds = Object.entries(snippetNames) as [SnippetKind, string][];

export function StatementPanel({ sql, compared }: { sql: string; compared: boolean }): JSX.Element {
  const [kind, setKind] = useState<SnippetKind>('sql');
  const text = snippet(kind, sql, originOf(location, session.value?.authentication ?? false));
  return (
    <Tabs
      label="Statement of the chart"
      value={kind}
      tabs={kinds}
      onChange={setKind}
      aside={
        <>
          {compared && <span class="tree-hint">and the same one day earlier</span>}
          <CopyButton label="Copy" text={() => text} />
          <a class="button" href={linkTo('query', new URLSearchParams({ sql }))}>
            <Icon name="query" /> Open in Query
          </a>
        </>
      }
    >
      <pre class="statement" tabIndex={0} aria-label="Statement">
        {text}
      </pre>
    </Tabs>
  );
}
