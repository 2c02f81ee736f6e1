import { expect, it } from 'vitest';
import { pieceAt, split } from './lexer';

it('splits at semicolons outside quotes, comments and dollar quotes', () => {
  const text = "select ';', `a;b` -- c;\n; /* d; /* e; */ ; */ select $$f;$$ ;; \n-- the end";
  expect(split(text).map((piece) => piece.text)).toEqual([
    "select ';', `a;b` -- c;",
    '/* d; /* e; */ ; */ select $$f;$$',
  ]);
});

it('keeps doubled quotes inside a text', () => {
  expect(split("select 'it''s; one'").length).toBe(1);
});

it('counts parameters of both kinds', () => {
  expect(split("select ?, '?', ?").map((piece) => piece.parameters)).toEqual([2]);
  expect(split('select $2, $1, $2').map((piece) => piece.parameters)).toEqual([2]);
});

it('finds the statement at the cursor', () => {
  const pieces = split('select 1; select 2');
  expect(pieceAt(pieces, 3)?.text).toBe('select 1');
  expect(pieceAt(pieces, 12)?.text).toBe('select 2');
});
