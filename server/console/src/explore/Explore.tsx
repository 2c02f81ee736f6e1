/** The page Explore: the catalog, and a chart of the chosen table. */
import type { JSX } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { toApiError, type ApiError } from '../api/errors';
import { seriesName } from '../catalog/catalog';
import { Tree } from '../catalog/Tree';
import * as tree from '../catalog/tree';
import type { TreeNode } from '../catalog/tree';
import { warmUp } from '../chart/Plot';
import { route } from '../shell/route';
import { Side } from '../shell/Side';
import { Empty, ErrorNotice, Loading } from '../widgets/Notice';
import { ChartPage } from './ChartPage';
import { choose, update } from './choose';
import { ahead, factsOf, type Ahead, type Facts } from './data';
import { FirstStart } from './FirstStart';
import { fromParameters, type View } from './state';

function withValue(view: View, tag: string, value: string): View {
  const old = view.filters.find((filter) => filter.tag === tag)?.values ?? [];
  const values = old.includes(value) ? old.filter((one) => one !== value) : [...old, value];
  const others = view.filters.filter((filter) => filter.tag !== tag);
  return { ...view, filters: values.length === 0 ? others : [...others, { tag, values }] };
}

/** What a click on a node of a table changes: the chart of the table itself is `base`. */
function chosen(node: TreeNode, base: View): View {
  switch (node.kind) {
    case 'database':
    case 'group':
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

/** Why a table is not shown, and what tries again. */
interface Failure {
  error: ApiError;
  retry: () => void;
}

/** The facts of a table, with its name. */
interface Known {
  database: string;
  table: string;
  facts: Facts;
  /** The first chart after a click. */
  first: Ahead | null;
}

/** About the width of a chart in an element, in pixels. */
function chartWidth(element: HTMLElement | null): number {
  if (!element) return 0;
  const { paddingLeft, paddingRight } = getComputedStyle(element);
  return element.clientWidth - parseFloat(paddingLeft) - parseFloat(paddingRight);
}

export function Explore(): JSX.Element {
  const view = fromParameters(route.value.parameters);
  const { database, table } = view;
  const [known, setKnown] = useState<Known | null>(null);
  const [failure, setFailure] = useState<Failure | null>(null);
  const [attempt, setAttempt] = useState(0);
  const clicks = useRef(0);
  const content = useRef<HTMLDivElement>(null);
  const isKnown = known?.database === database && known.table === table;

  // The code of a first chart is there, and compiled, before the click. The chart loads it again if that fails.
  useEffect(() => {
    void import('../table/arrow').then(
      (arrow) => arrow.warmUp(),
      () => undefined,
    );
    const timer = setTimeout(warmUp, 100);
    return () => clearTimeout(timer);
  }, []);

  // The answer to a click does not bring back a user who has gone to another table or page meanwhile.
  useLayoutEffect(
    () => () => {
      clicks.current++;
    },
    [database, table],
  );

  useEffect(() => {
    let current = true;
    setFailure(null);
    if (table === '' || isKnown) return;
    factsOf(database, table).then(
      (facts) => {
        if (!current) return;
        // A link from the palette names the table alone.
        const { parameters } = route.peek();
        const asked = fromParameters(parameters);
        if (asked.fields.length === 0) {
          const complete = choose(database, table, facts);
          const range = parameters.has('range') ? asked.range : complete.range;
          update({ ...asked, fields: complete.fields, range }, true);
        }
        setKnown({ database, table, facts, first: null });
      },
      (thrown: unknown) => {
        if (!current) return;
        setFailure({ error: toApiError(thrown), retry: () => setAttempt((last) => last + 1) });
      },
    );
    return () => {
      current = false;
    };
  }, [database, table, attempt]);

  const onChoose = (node: TreeNode) => {
    if (node.kind === 'database' || node.kind === 'group') {
      void tree.open(node);
      return;
    }
    const click = ++clicks.current;
    setFailure(null);
    if (isKnown && node.database === database && node.table === table) {
      void tree.open(node);
      update(chosen(node, view));
      return;
    }
    const show = async () => {
      const asked = factsOf(node.database, node.table);
      // While the server answers what the chart waits for.
      void tree.open(node);
      warmUp();
      const facts = await asked;
      // A later click counts.
      if (click !== clicks.current) return;
      const next = chosen(node, choose(node.database, node.table, facts));
      const first = await ahead(next, facts, chartWidth(content.current));
      if (click !== clicks.current) {
        first?.abort.abort();
        return;
      }
      setKnown({ database: node.database, table: node.table, facts, first });
      update(next);
    };
    show().catch((thrown: unknown) => {
      if (click !== clicks.current) return;
      setFailure({ error: toApiError(thrown), retry: () => onChoose(node) });
    });
  };

  const root = tree.loaded.value.get(tree.root);
  const empty = root?.state === 'ready' && root.nodes.length === 0;

  return (
    <div class="page">
      <Side label="Catalog">
        <Tree onChoose={onChoose} chosen={{ database, table }} />
      </Side>
      <div class="content" ref={content}>
        {failure ? (
          <ErrorNotice {...failure} />
        ) : empty ? (
          <FirstStart />
        ) : table === '' ? (
          <Empty title="Choose a table">
            <p>
              A click on a table of the catalog draws its first field. Fields, tags, values and series of the
              tree change the chart.
            </p>
          </Empty>
        ) : !isKnown ? (
          <Loading text={`Loading ${table}`} />
        ) : (
          <ChartPage
            key={`${database}\n${table}`}
            view={view}
            facts={known.facts}
            first={known.first}
            onChange={update}
          />
        )}
      </div>
    </div>
  );
}
