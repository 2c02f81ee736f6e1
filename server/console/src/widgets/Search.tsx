/** A field for the words of a search. */
import type { JSX } from 'preact';
import { Icon } from './icons';

interface Props {
  /** What is searched. */
  label: string;
  /** What the empty field shows; the label by default. */
  placeholder?: string;
  value: string;
  onChange: (value: string) => void;
}

export function Search({ label, placeholder = label, value, onChange }: Props): JSX.Element {
  return (
    <label class="search">
      <Icon name="search" />
      <input
        type="search"
        aria-label={label}
        placeholder={placeholder}
        value={value}
        onInput={(event) => onChange(event.currentTarget.value)}
      />
    </label>
  );
}
