/** Errors and empty states: what happened, and what to do next. */
import type { ComponentChildren, JSX } from 'preact';
import type { ApiError } from '../api/errors';
import { Icon } from './icons';

export function ErrorNotice({ error, retry }: { error: ApiError; retry?: () => void }): JSX.Element {
  const { summary, details, position } = error.parsed;
  return (
    <div class="notice notice-error" role="alert">
      <Icon name="warning" />
      <div>
        <p class="notice-title">
          {summary}
          {position && (
            <span class="notice-place">
              {' '}
              · line {position.line}, column {position.column}
            </span>
          )}
        </p>
        {details.size > 0 && (
          <dl class="notice-details">
            {[...details].map(([name, value]) => (
              <div key={name}>
                <dt>{name}</dt>
                <dd>{value}</dd>
              </div>
            ))}
          </dl>
        )}
        <p class="notice-advice">
          {error.advice}{' '}
          {retry && (
            <button type="button" class="button" onClick={retry}>
              Try again
            </button>
          )}
        </p>
      </div>
    </div>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }): JSX.Element {
  return (
    <div class="empty">
      <h2>{title}</h2>
      {children}
    </div>
  );
}

export function Loading({ text }: { text: string }): JSX.Element {
  return (
    <div class="loading" role="status">
      <span class="spinner" aria-hidden="true" />
      {text}
    </div>
  );
}
