/** A labelled list of choices, of which one is chosen. */
import type { JSX } from 'preact';

interface Props<T extends string> {
  label: string;
  value: T;
  options: readonly (readonly [T, string])[];
  onChange: (value: T) => void;
}

export function Choice<T extends string>({ label, value, options, onChange }: Props<T>): JSX.Element {
  return (
    <label class="choice">
      <span class="choice-label">{label}</span>
      <select
        value={value}
        onChange={(event) => {
          const chosen = options.find(([name]) => name === event.currentTarget.value);
          if (chosen) onChange(chosen[0]);
        }}
      >
        {options.map(([name, text]) => (
          <option key={name} value={name} selected={name === value}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}

export function Toggle(props: {
  label: string;
  value: boolean;
  onChange: (value: boolean) => void;
}): JSX.Element {
  return (
    <button
      type="button"
      class="button toggle"
      aria-pressed={props.value}
      onClick={() => props.onChange(!props.value)}
    >
      {props.label}
    </button>
  );
}
