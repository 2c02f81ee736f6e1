/** Loads a value for a component, and again: on request, and at an interval while the page is visible. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { isAbort, toApiError, type ApiError } from '../api/errors';

export interface Loaded<T> {
  /** The last value, which stays while another one is loaded for the same key. */
  value: T | null;
  error: ApiError | null;
  busy: boolean;
  reload: () => void;
}

/** Loads when `key` changes, again when `version` does, and with `every` that many milliseconds after each answer. */
export function useLoaded<T>(
  load: (signal: AbortSignal) => Promise<T>,
  key: string,
  { every = 0, version = 0 }: { every?: number; version?: number } = {},
): Loaded<T> {
  const [state, setState] = useState<{ key: string; value: T | null; error: ApiError | null; busy: boolean }>(
    {
      key,
      value: null,
      error: null,
      busy: true,
    },
  );
  const [attempt, setAttempt] = useState(0);
  const latest = useRef(load);
  latest.current = load;

  useEffect(() => {
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const again = () => {
      if (every > 0 && !abort.signal.aborted) timer = setTimeout(run, every);
    };
    const run = () => {
      if (document.visibilityState === 'hidden') {
        again();
        return;
      }
      latest
        .current(abort.signal)
        .then(
          (value) => {
            if (!abort.signal.aborted) setState({ key, value, error: null, busy: false });
          },
          (thrown: unknown) => {
            if (abort.signal.aborted || isAbort(thrown)) return;
            setState((old) => ({ ...old, key, error: toApiError(thrown), busy: false }));
          },
        )
        .finally(again);
    };
    setState((old) => ({ key, value: old.key === key ? old.value : null, error: null, busy: true }));
    run();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [key, every, version, attempt]);

  const current = state.key === key ? state : { value: null, error: null, busy: true };
  const { value, error, busy } = current;
  return { value, error, busy, reload: () => setAttempt((now) => now + 1) };
}
