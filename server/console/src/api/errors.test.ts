import { describe, expect, it } from 'vitest';
import { offsetOf, parseMessage } from './errors';

describe('parseMessage', () => {
  it('separates the summary, details with commas, and the place', () => {
    const parsed = parseMessage(
      'no such column (column: usr, did you mean: user, expected one of: ts, user, load, line: 2, column: 8)',
    );
    expect(parsed.summary).toBe('no such column');
    expect(parsed.details.get('did you mean')).toBe('user');
    expect(parsed.details.get('expected one of')).toBe('ts, user, load');
    expect(parsed.position).toEqual({ line: 2, column: 8 });
  });

  it('leaves a message without details as it is', () => {
    expect(parseMessage('empty statement: expected SELECT (or SHOW)').summary).toBe(
      'empty statement: expected SELECT (or SHOW)',
    );
  });
});

describe('offsetOf', () => {
  it('counts columns in code points', () => {
    expect(offsetOf("select '😀', x", { line: 1, column: 13 })).toBe("select '😀', ".length);
  });

  it('finds later lines, and the end of the text behind them', () => {
    expect(offsetOf('a\nbcd', { line: 2, column: 3 })).toBe(4);
    expect(offsetOf('a\nb', { line: 9, column: 1 })).toBe(3);
  });
});
