/** Shows any number of rows: only those in view are in the document. */
import type { JSX } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { zone } from '../chart/instant';
import { formatCount } from '../chart/units';
import { copy } from '../widgets/CopyButton';
import type { Result } from './result';
import { rowAt, rowHeight, scrollFor, scrollHeight, widths } from './scrolling';

interface Props {
  result: Result;
  /** The number of rows to show; a result may hold one more. */
  rowCount: number;
  label: string;
}

/** Rows that are drawn above and below the view. */
const margin = 8;

export function VirtualTable({ result, rowCount, label }: Props): JSX.Element {
  const view = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(400);
  const [active, setActive] = useState({ row: 0, column: 0 });
  const where = zone.value;
  const sizes = useMemo(
    () => widths(result, rowCount, where),
    // Widths are those of the first rows, which do not change.
    [result, Math.min(rowCount, 50), where],
  );
  const digits = formatCount(rowCount).length;
  const template = `${digits + 2}ch ${sizes.map((size) => `${size}ch`).join(' ')} 1fr`;

  useLayoutEffect(() => {
    const element = view.current;
    if (!element) return;
    const observer = new ResizeObserver(() => setHeight(element.clientHeight - rowHeight));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  useEffect(() => {
    view.current?.scrollTo(0, 0);
    setActive({ row: 0, column: 0 });
  }, [result]);

  const total = scrollHeight(rowCount);
  const first = rowAt(top, rowCount, height);
  const from = Math.max(0, Math.floor(first) - margin);
  const to = Math.min(rowCount, Math.ceil(first + height / rowHeight) + margin);

  const show = (row: number, column: number) => {
    const next = {
      row: Math.max(0, Math.min(rowCount - 1, row)),
      column: Math.max(0, Math.min(result.columns.length - 1, column)),
    };
    setActive(next);
    const visible = height / rowHeight;
    const now = rowAt(view.current?.scrollTop ?? 0, rowCount, height);
    if (next.row < now) view.current?.scrollTo({ top: scrollFor(next.row, rowCount, height) });
    else if (next.row + 1 > now + visible) {
      view.current?.scrollTo({ top: scrollFor(next.row + 1 - visible, rowCount, height) });
    }
    view.current
      ?.querySelector(`[aria-colindex="${next.column + 2}"]`)
      ?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
  };

  const keys = (event: KeyboardEvent) => {
    const page = Math.max(1, Math.floor(height / rowHeight) - 1);
    const { row, column } = active;
    const far = event.ctrlKey || event.metaKey;
    if (far && event.key.toLowerCase() === 'c') {
      if (window.getSelection()?.isCollapsed === false) return;
      void copy(result.text(row, column, where) ?? '').catch(() => undefined);
    } else if (event.key === 'ArrowDown') show(far ? rowCount : row + 1, column);
    else if (event.key === 'ArrowUp') show(far ? 0 : row - 1, column);
    else if (event.key === 'PageDown') show(row + page, column);
    else if (event.key === 'PageUp') show(row - page, column);
    else if (event.key === 'ArrowRight') show(row, column + 1);
    else if (event.key === 'ArrowLeft') show(row, column - 1);
    else if (event.key === 'Home') show(far ? 0 : row, 0);
    else if (event.key === 'End') show(far ? rowCount : row, result.columns.length);
    else return;
    event.preventDefault();
  };

  const rows: JSX.Element[] = [];
  for (let row = from; row < to; row++) {
    rows.push(
      <div
        key={row}
        role="row"
        aria-rowindex={row + 2}
        class="table-row"
        style={{
          gridTemplateColumns: template,
          transform: `translateY(${top + (row - first) * rowHeight}px)`,
        }}
      >
        <span role="rowheader" aria-colindex={1} class="cell cell-index">
          {formatCount(row + 1)}
        </span>
        {result.columns.map((column, index) => {
          const text = result.text(row, index, where);
          const current = row === active.row && index === active.column;
          return (
            <span
              key={index}
              id={current ? 'active-cell' : undefined}
              role="gridcell"
              aria-colindex={index + 2}
              aria-selected={current}
              class={`cell cell-${column.kind}${text === null ? ' cell-null' : ''}`}
              title={text !== null && text.length > 40 ? text : undefined}
              onPointerDown={() => setActive({ row, column: index })}
            >
              {text ?? 'NULL'}
            </span>
          );
        })}
      </div>,
    );
  }

  return (
    <div
      ref={view}
      class="table"
      role="grid"
      aria-label={label}
      aria-rowcount={rowCount + 1}
      aria-colcount={result.columns.length + 1}
      aria-activedescendant="active-cell"
      tabIndex={0}
      onKeyDown={keys}
      onScroll={(event) => setTop(event.currentTarget.scrollTop)}
    >
      <div
        role="row"
        aria-rowindex={1}
        class="table-row table-head"
        style={{ gridTemplateColumns: template }}
      >
        <span role="columnheader" aria-colindex={1} class="cell cell-index">
          #
        </span>
        {result.columns.map((column, index) => (
          <span key={index} role="columnheader" aria-colindex={index + 2} class={`cell cell-${column.kind}`}>
            {column.name} <span class="cell-type">{column.type.toLowerCase()}</span>
          </span>
        ))}
      </div>
      <div role="rowgroup" class="table-body" style={{ height: `${total}px` }}>
        {rows}
      </div>
    </div>
  );
}
