/** Tabs with the keys of the ARIA pattern: arrows, Home and End. */
import type { ComponentChildren, JSX } from 'preact';
import { useId, useRef } from 'preact/hooks';

interface Props<T extends string> {
  label: string;
  value: T;
  tabs: readonly (readonly [T, ComponentChildren])[];
  onChange: (value: T) => void;
  /** What is beside the tabs. */
  aside?: ComponentChildren;
  children: ComponentChildren;
}

export function Tabs<T extends string>(props: Props<T>): JSX.Element {
  const { label, value, tabs, onChange, aside, children } = props;
  const id = useId();
  const list = useRef<HTMLDivElement>(null);

  const move = (event: KeyboardEvent) => {
    const at = tabs.findIndex(([name]) => name === value);
    const target = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (target === undefined) return;
    event.preventDefault();
    const index = (target + tabs.length) % tabs.length;
    const tab = tabs[index];
    if (!tab) return;
    onChange(tab[0]);
    list.current?.querySelectorAll<HTMLElement>('[role=tab]')[index]?.focus();
  };

  return (
    <section class="tabs">
      <div class="tabs-head">
        <div role="tablist" aria-label={label} class="tabs-list" ref={list} onKeyDown={move}>
          {tabs.map(([name, text]) => (
            <button
              key={name}
              type="button"
              role="tab"
              id={`${id}-${name}`}
              aria-selected={name === value}
              aria-controls={`${id}-panel`}
              tabIndex={name === value ? 0 : -1}
              onClick={() => onChange(name)}
            >
              {text}
            </button>
          ))}
        </div>
        <div class="tabs-aside">{aside}</div>
      </div>
      <div
        role="tabpanel"
        class="tabs-panel"
        id={`${id}-panel`}
        aria-labelledby={`${id}-${value}`}
        tabIndex={-1}
      >
        {children}
      </div>
    </section>
  );
}
