/** Shows the catalog as a tree with the keys of the ARIA pattern. */
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Icon } from '../widgets/icons';
import { ErrorNotice, Loading } from '../widgets/Notice';
import { Search } from '../widgets/Search';
import * as tree from './tree';
import type { TreeNode, TreeRow } from './tree';

interface Props {
  /** What a click or Enter does. */
  onChoose: (node: TreeNode) => void;
  /** The table that is shown beside the tree. */
  chosen?: { database: string; table: string };
}

export function Tree({ onChoose, chosen }: Props): JSX.Element {
  const [focused, setFocused] = useState<string | null>(null);
  const list = useRef<HTMLDivElement>(null);
  const rows = tree.visible();
  const root = tree.loaded.value.get(tree.root);
  const active = rows.find((row) => row.node.key === focused) ?? rows[0];

  const focus = (row: TreeRow | undefined) => {
    if (!row) return;
    setFocused(row.node.key);
    list.current?.querySelector<HTMLElement>(`[data-key="${CSS.escape(row.node.key)}"]`)?.focus();
  };

  const keys = (event: KeyboardEvent) => {
    if (!active) return;
    const at = rows.indexOf(active);
    switch (event.key) {
      case 'ArrowDown':
        focus(rows[at + 1]);
        break;
      case 'ArrowUp':
        focus(rows[at - 1]);
        break;
      case 'Home':
        focus(rows[0]);
        break;
      case 'End':
        focus(rows.at(-1));
        break;
      case 'ArrowRight':
        if (!tree.isExpandable(active.node)) return;
        if (active.children) focus(rows[at + 1]);
        else void tree.open(active.node);
        break;
      case 'ArrowLeft':
        if (active.children) tree.close(active.node);
        else focus(rows.slice(0, at).findLast((row) => row.level < active.level));
        break;
      case 'Enter':
      case ' ':
        onChoose(active.node);
        break;
      default:
        return;
    }
    event.preventDefault();
  };

  return (
    <div class="catalog">
      <CatalogSearch />
      {root?.error && <ErrorNotice error={root.error} retry={() => void tree.load(null)} />}
      {root?.state === 'loading' && rows.length === 0 && <Loading text="Loading databases" />}
      {root?.state === 'ready' && rows.length === 0 && <p class="catalog-note">No databases.</p>}
      {rows.length > 0 && (
        <div class="tree" role="tree" aria-label="Databases" ref={list} onKeyDown={keys}>
          {rows.map((row) => (
            <Row
              key={row.node.key}
              row={row}
              tabbable={row === active}
              chosen={isChosen(row.node, chosen)}
              onFocus={() => setFocused(row.node.key)}
              onChoose={onChoose}
            />
          ))}
        </div>
      )}
    </div>
  );
}

function isChosen(node: TreeNode, chosen: Props['chosen']): boolean {
  return node.kind === 'table' && node.database === chosen?.database && node.table === chosen.table;
}

/** Milliseconds after the last key before a search begins. */
const typing = 250;

function CatalogSearch(): JSX.Element {
  const [text, setText] = useState(tree.search.value);
  useEffect(() => {
    if (text === tree.search.value) return;
    const timer = setTimeout(() => void tree.setSearch(text), typing);
    return () => clearTimeout(timer);
  }, [text]);
  return (
    <Search
      label="Search tables, tag values and series"
      placeholder="Search tables, values, series"
      value={text}
      onChange={setText}
    />
  );
}

interface RowProps {
  row: TreeRow;
  tabbable: boolean;
  chosen: boolean;
  onFocus: () => void;
  onChoose: (node: TreeNode) => void;
}

function Row({ row, tabbable, chosen, onFocus, onChoose }: RowProps): JSX.Element {
  const { node, level, children } = row;
  const expandable = tree.isExpandable(node);
  const toggle = (event: Event) => {
    event.stopPropagation();
    if (children) tree.close(node);
    else void tree.open(node);
  };
  return (
    <>
      <div
        class="tree-row"
        role="treeitem"
        data-key={node.key}
        data-kind={node.kind}
        aria-level={level}
        aria-posinset={row.position}
        aria-setsize={row.count}
        aria-expanded={expandable ? children !== undefined : undefined}
        aria-selected={chosen}
        tabIndex={tabbable ? 0 : -1}
        style={{ paddingLeft: `${(level - 1) * 14 + 6}px` }}
        title={node.label}
        onFocus={onFocus}
        onClick={(event) =>
          node.kind === 'database' || node.kind === 'group' ? toggle(event) : onChoose(node)
        }
      >
        <span class="tree-toggle" onClick={expandable ? toggle : undefined}>
          {expandable && <Icon name={children ? 'down' : 'chevron'} />}
        </span>
        <Icon name={node.icon} />
        <span class="tree-label">{node.label}</span>
        {node.hint && <span class="tree-hint">{node.hint}</span>}
      </div>
      {children && <Foot row={row} />}
    </>
  );
}

/** What a list says below its name when it is not complete. */
function Foot({ row }: { row: TreeRow }): JSX.Element | null {
  const { node, level, children } = row;
  const text =
    children?.state === 'loading' && children.nodes.length === 0
      ? 'Loading…'
      : children?.state === 'failed'
        ? (children.error?.message ?? 'Failed')
        : children?.more
          ? `First ${children.nodes.length}; search for others`
          : children?.nodes.length === 0
            ? 'None found'
            : null;
  if (text === null) return null;
  const id = `${node.key}-foot`;
  return (
    <div class="tree-foot" role="none" id={id} style={{ paddingLeft: `${level * 14 + 26}px` }}>
      {text}
    </div>
  );
}
