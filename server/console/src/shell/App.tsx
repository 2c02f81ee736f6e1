/** Chooses between the login page and the console. */
import { effect } from '@preact/signals';
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { toApiError, type ApiError } from '../api/errors';
import { refusals } from '../api/http';
import { loadSession, session } from '../api/session';
import { ErrorNotice, Loading } from '../widgets/Notice';
import { Frame } from './Frame';
import { Login } from './Login';

export function App(): JSX.Element {
  const [error, setError] = useState<ApiError | null>(null);

  const load = () => {
    setError(null);
    loadSession().catch((thrown: unknown) => setError(toApiError(thrown)));
  };

  useEffect(() => {
    load();
    // A refused request means that the session has ended: the server knows whether somebody must log in.
    return effect(() => {
      if (refusals.value > 0 && session.peek()?.user) load();
    });
  }, []);

  if (error) {
    return (
      <main class="login">
        <ErrorNotice error={error} retry={load} />
      </main>
    );
  }
  if (session.value === null) {
    return (
      <main class="login">
        <Loading text="Connecting" />
      </main>
    );
  }
  return session.value.authentication && session.value.user === null ? <Login /> : <Frame />;
}
