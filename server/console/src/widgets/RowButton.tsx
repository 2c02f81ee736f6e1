/** A button in a row of a table, whose label names the row for readers of screens. */
import type { JSX } from 'preact';

interface Props {
  text: string;
  /** What the button does to which row. */
  label: string;
  danger?: boolean;
  onClick: () => void;
}

export function RowButton({ text, label, danger = false, onClick }: Props): JSX.Element {
  return (
    <button type="button" class={danger ? 'button danger' : 'button'} aria-label={label} onClick={onClick}>
      {text}
    </button>
  );
}
