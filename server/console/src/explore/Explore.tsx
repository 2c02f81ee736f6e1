/** The page Explore: the catalog, and a chart of the chosen table. */
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { toApiError, type ApiError } from '../api/errors';
import type { Column } from '../catalog/catalog';
import { Tree } from '../catalog/Tree';
import * as tree from '../catalog/tree';
import type { TreeNode } from '../catalog/tree';
import { route } from '../shell/route';
import { Side } from '../shell/Side';
import { Empty, ErrorNotice, Loading } from '../widgets/Notice';
import { ChartPage } from './ChartPage';
import { choose, update } from './choose';
import { columnsOf } from './data';
import { FirstStart } from './FirstStart';
import { fromParameters, type View } from './state';
import { seriesName } from './statement';

function withValue(view: View, tag: string, value: string): View {
  const old = view.filters.find((filter) => filter.tag === tag)?.values ?? [];
  const values = old.includes(value) ? old.filter((one) => one !== value) : [...old, value];
  const others = view.filters.filter((filter) => filter.tag !== tag);
  return { ...view, filters: values.length === 0 ? others : [...others, { tag, values }] };
}

/** What a click on a node of the tree changes. */
async function chosen(node: TreeNode, view: View): Promise<View | null> {
  if (node.kind === 'database' || node.kind === 'group') return null;
  const same = view.database === node.database && view.table === node.table;
  const base = same ? view : await choose(node.database, node.table);
  switch (node.kind) {
    case 'table':
      return base;
    case 'field':
      return { ...base, fields: [node.column.name] };
    case 'tag':
      return { ...base, group: node.column.name };
    case 'value':
      return withValue(base, node.tag, node.value);
    case 'series':
      return withValue(base, seriesName, node.label);
  }
}

export function Explore(): JSX.Element {
  const view = fromParameters(route.value.parameters);
  const { database, table } = view;
  const [columns, setColumns] = useState<Column[] | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const [attempt, setAttempt] = useState(0);

  useEffect(() => {
    let current = true;
    setColumns(null);
    setError(null);
    if (table === '') return;
    const load = async () => {
      const found = await columnsOf(database, table);
      // A link from the palette names the table alone.
      if (view.fields.length === 0) {
        const complete = await choose(database, table);
        const range = route.peek().parameters.has('range') ? view.range : complete.range;
        if (current) update({ ...view, fields: complete.fields, range }, true);
      }
      if (current) setColumns(found);
    };
    load().catch((thrown: unknown) => {
      if (current) setError(toApiError(thrown));
    });
    return () => {
      current = false;
    };
  }, [database, table, attempt]);

  const onChoose = (node: TreeNode) => {
    void tree.open(node);
    chosen(node, view).then(
      (next) => {
        if (next) update(next);
      },
      (thrown: unknown) => setError(toApiError(thrown)),
    );
  };

  const root = tree.loaded.value.get(tree.root);
  const empty = root?.state === 'ready' && root.nodes.length === 0;

  return (
    <div class="page">
      <Side label="Catalog">
        <Tree onChoose={onChoose} chosen={{ database, table }} />
      </Side>
      <div class="content">
        {error ? (
          <ErrorNotice error={error} retry={() => setAttempt(attempt + 1)} />
        ) : empty ? (
          <FirstStart />
        ) : table === '' ? (
          <Empty title="Choose a table">
            <p>
              A click on a table of the catalog draws its first field. Fields, tags, values and series of the
              tree change the chart.
            </p>
          </Empty>
        ) : columns === null ? (
          <Loading text={`Loading ${table}`} />
        ) : (
          <ChartPage view={view} columns={columns} onChange={update} />
        )}
      </div>
    </div>
  );
}
