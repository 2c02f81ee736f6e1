/** A button that opens a panel below it; Escape and a click elsewhere close it. */
import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { Icon, type IconName } from './icons';

interface Props {
  label: string;
  /** What the button shows; the label by default. */
  text?: ComponentChildren;
  icon?: IconName;
  /** Where the panel is aligned with the button. */
  align?: 'start' | 'end';
  class?: string;
  children: (close: () => void) => ComponentChildren;
}

export function Menu({ label, text, icon, align = 'start', class: name, children }: Props): JSX.Element {
  const [open, setOpen] = useState(false);
  const root = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const id = useId();

  useEffect(() => {
    if (!open) return;
    const outside = (event: Event) => {
      if (event.target instanceof Node && !root.current?.contains(event.target)) setOpen(false);
    };
    document.addEventListener('pointerdown', outside);
    root.current?.querySelector<HTMLElement>('.menu-panel :is(input, button, select)')?.focus();
    return () => document.removeEventListener('pointerdown', outside);
  }, [open]);

  const close = () => {
    setOpen(false);
    button.current?.focus();
  };

  const keys = (event: KeyboardEvent) => {
    if (!open) return;
    if (event.key === 'Escape') {
      event.stopPropagation();
      close();
    } else if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      const items = [
        ...(root.current?.querySelectorAll<HTMLElement>('.menu-panel :is(input, button)') ?? []),
      ];
      const at = items.indexOf(document.activeElement as HTMLElement);
      const next = items[at + (event.key === 'ArrowDown' ? 1 : -1)];
      if (next && at >= 0) {
        event.preventDefault();
        next.focus();
      }
    }
  };

  return (
    <div class={`menu ${name ?? ''}`} ref={root} onKeyDown={keys}>
      <button
        type="button"
        class="button"
        ref={button}
        aria-expanded={open}
        aria-controls={open ? id : undefined}
        aria-label={label}
        title={label}
        onClick={() => setOpen(!open)}
      >
        {icon && <Icon name={icon} />}
        {(text !== undefined || !icon) && <span class="button-text">{text ?? label}</span>}
        {text !== undefined && <Icon name="down" />}
      </button>
      {open && (
        <div class={`menu-panel menu-${align}`} id={id} role="group" aria-label={label}>
          {children(close)}
        </div>
      )}
    </div>
  );
}
