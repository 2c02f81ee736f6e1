/** Forms that log in or create a user. */
import { useState } from 'preact/hooks';
import { toApiError, type ApiError } from '../api/errors';

/** Reads the texts of a form's fields by name. */
function texts(form: HTMLFormElement): (name: string) => string {
  const data = new FormData(form);
  return (name) => {
    const value = data.get(name);
    return typeof value === 'string' ? value : '';
  };
}

interface Submission {
  error: ApiError | null;
  busy: boolean;
  submit: (event: SubmitEvent) => void;
}

/** Sends the texts of a form. After success the page shows something else, so that the form stays busy. */
export function useSubmit(send: (text: (name: string) => string) => Promise<void>): Submission {
  const [error, setError] = useState<ApiError | null>(null);
  const [busy, setBusy] = useState(false);
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    if (!(event.currentTarget instanceof HTMLFormElement)) return;
    setBusy(true);
    setError(null);
    send(texts(event.currentTarget)).catch((thrown: unknown) => {
      setError(toApiError(thrown));
      setBusy(false);
    });
  };
  return { error, busy, submit };
}
