/** Commands of the palette. Pages add theirs while they are shown. */
import { signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';

export interface Command {
  name: string;
  /** As it is shown, such as `Ctrl Enter`. */
  keys?: string;
  run: () => void;
}

export const commands = signal<readonly Command[]>([]);
export const paletteOpen = signal(false);

/** Adds commands while a component is mounted; they change when one of `inputs` does. */
export function useCommands(added: () => readonly Command[], inputs: readonly unknown[] = []): void {
  useEffect(() => {
    const mine = added();
    commands.value = [...commands.value, ...mine];
    return () => {
      commands.value = commands.value.filter((command) => !mine.includes(command));
    };
    // The commands read the current state when they run.
  }, inputs);
}
