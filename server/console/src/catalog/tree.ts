/** The tree of databases, tables, columns, tag values and series. Lists are loaded when a node is opened. */
import { batch, signal } from '@preact/signals';
import { toApiError, type ApiError } from '../api/errors';
import { formatCount } from '../chart/units';
import type { IconName } from '../widgets/icons';
import { columns, databases, series, seriesCount, tables, tagValues, type Column } from './catalog';

export type TreeNode = { key: string; label: string; icon: IconName; hint?: string } & (
  | { kind: 'database'; database: string }
  | { kind: 'table'; database: string; table: string }
  | { kind: 'field' | 'tag'; database: string; table: string; column: Column }
  | { kind: 'value'; database: string; table: string; tag: string; value: string }
  | { kind: 'group' | 'series'; database: string; table: string }
);

export interface Children {
  state: 'loading' | 'ready' | 'failed';
  nodes: TreeNode[];
  more: boolean;
  error: ApiError | null;
}

export const root = 'root';
export const expanded = signal<ReadonlySet<string>>(new Set([root]));
export const loaded = signal<ReadonlyMap<string, Children>>(new Map());
export const search = signal('');

/** Entries of a list of values or series; a search finds others. */
const listed = 50;

export function isExpandable(node: TreeNode): boolean {
  return node.kind === 'database' || node.kind === 'table' || node.kind === 'tag' || node.kind === 'group';
}

async function rootNodes(): Promise<TreeNode[]> {
  return (await databases()).map((database) => ({
    key: `d:${database}`,
    label: database,
    icon: 'database',
    kind: 'database',
    database,
  }));
}

async function tableNodes(database: string): Promise<[TreeNode[], boolean]> {
  const words = search.value;
  let found = await tables(database, words);
  // A search for a tag value or a series must still show the tables that are open.
  if (words !== '' && found.items.length === 0) found = await tables(database);
  const nodes = found.items.map(({ name, tags }): TreeNode => ({
    key: `t:${database}:${name}`,
    label: name,
    icon: 'table',
    hint: tags === 0 ? 'no tags' : tags === 1 ? '1 tag' : `${tags} tags`,
    kind: 'table',
    database,
    table: name,
  }));
  return [nodes, found.more];
}

async function columnNodes(database: string, table: string): Promise<TreeNode[]> {
  const all = await columns(database, table);
  const nodes = all
    .filter((column) => column.role !== 'time')
    .map((column): TreeNode => {
      const kind = column.role === 'tag' ? 'tag' : 'field';
      const key = `c:${database}:${table}:${column.name}`;
      return {
        key,
        label: column.name,
        icon: kind,
        hint: column.type.toLowerCase(),
        kind,
        database,
        table,
        column,
      };
    });
  if (!all.some((column) => column.role === 'tag')) return nodes;
  const key = groupKey(database, table);
  return [...nodes, { key, label: 'Series', icon: 'series', kind: 'group', database, table }];
}

function groupKey(database: string, table: string): string {
  return `g:${database}:${table}`;
}

/** Shows the number of series of a table once the server has counted them; the list does not wait for it. */
async function countSeries(node: TreeNode): Promise<void> {
  if (node.kind !== 'table') return;
  const key = groupKey(node.database, node.table);
  const has = () => loaded.value.get(node.key)?.nodes.some((one) => one.key === key) === true;
  if (!has()) return;
  const hint = formatCount(await seriesCount(node.database, node.table));
  const children = loaded.value.get(node.key);
  if (!children || !has()) return;
  const nodes = children.nodes.map((one) => (one.key === key ? { ...one, hint } : one));
  put(node.key, { ...children, nodes });
}

async function childrenOf(node: TreeNode | null): Promise<[TreeNode[], boolean]> {
  if (node === null) return [await rootNodes(), false];
  const { database } = node;
  switch (node.kind) {
    case 'database':
      return tableNodes(database);
    case 'table':
      return [await columnNodes(database, node.table), false];
    case 'tag': {
      const { table, column } = node;
      const found = await tagValues(database, table, column.name, search.value, listed);
      const nodes = found.items.map((value): TreeNode => {
        const key = `v:${database}:${table}:${column.name}:${value}`;
        return { key, label: value, icon: 'value', kind: 'value', database, table, tag: column.name, value };
      });
      return [nodes, found.more];
    }
    case 'group': {
      const { table } = node;
      const found = await series(database, table, search.value, listed);
      const nodes = found.items.map((name): TreeNode => {
        return {
          key: `s:${database}:${table}:${name}`,
          label: name,
          icon: 'series',
          kind: 'series',
          database,
          table,
        };
      });
      return [nodes, found.more];
    }
    case 'field':
    case 'value':
    case 'series':
      return [[], false];
  }
}

function put(key: string, children: Children): void {
  loaded.value = new Map(loaded.value).set(key, children);
}

/** Loads the children of a node; of the root for `null`. Databases are opened if there are few. */
export async function load(node: TreeNode | null): Promise<void> {
  const key = node?.key ?? root;
  const before = loaded.value.get(key)?.nodes ?? [];
  put(key, { state: 'loading', nodes: before, more: false, error: null });
  try {
    const [nodes, more] = await childrenOf(node);
    put(key, { state: 'ready', nodes, more, error: null });
    if (node === null && nodes.length <= 8) await Promise.all(nodes.map(open));
    // The tree is complete without the number.
    if (node !== null) countSeries(node).catch(() => undefined);
  } catch (error) {
    put(key, { state: 'failed', nodes: [], more: false, error: toApiError(error) });
  }
}

export async function open(node: TreeNode): Promise<void> {
  if (!isExpandable(node)) return;
  expanded.value = new Set(expanded.value).add(node.key);
  if (loaded.value.get(node.key)?.state !== 'ready') await load(node);
}

export function close(node: TreeNode): void {
  const next = new Set(expanded.value);
  next.delete(node.key);
  expanded.value = next;
}

export interface TreeRow {
  node: TreeNode;
  level: number;
  children: Children | undefined;
  position: number;
  count: number;
}

/** The visible rows from top to bottom. */
export function visible(key = root, level = 1): TreeRow[] {
  const nodes = loaded.value.get(key)?.nodes ?? [];
  return nodes.flatMap((node, index): TreeRow[] => {
    const children = expanded.value.has(node.key) ? loaded.value.get(node.key) : undefined;
    const row = { node, level, children, position: index + 1, count: nodes.length };
    return children ? [row, ...visible(node.key, level + 1)] : [row];
  });
}

/** Sets the search and repeats the lists that it restricts. */
export async function setSearch(words: string): Promise<void> {
  search.value = words;
  const kinds = new Set(['database', 'tag', 'group']);
  const lists = visible().filter((row) => row.children && kinds.has(row.node.kind));
  await Promise.all(lists.map((row) => load(row.node)));
}

/** Forgets everything and loads again. */
export async function reload(): Promise<void> {
  batch(() => {
    loaded.value = new Map();
    expanded.value = new Set([root]);
  });
  await load(null);
}
