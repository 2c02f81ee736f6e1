/** A modal dialog; Escape closes it and the focus returns to where it was. */
import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

interface Props {
  title: string;
  onClose: () => void;
  /** Receives what closes the dialog. */
  children: (close: () => void) => ComponentChildren;
}

export function Dialog({ title, onClose, children }: Props): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} class="dialog" aria-label={title} onClose={onClose}>
      <h2>{title}</h2>
      {children(() => dialog.current?.close())}
    </dialog>
  );
}
