/** Splits a text into statements and finds their parameters, outside quotes and comments. */

export interface Piece {
  /** The statement without surrounding space and without its semicolon. */
  text: string;
  /** Offsets in the whole text. */
  from: number;
  to: number;
  /** The number of values that the statement takes. */
  parameters: number;
}

/** The offset behind a quoted text, a name, a comment or a dollar-quoted text that begins at `at`; `at` if none does. */
function skip(text: string, at: number): number {
  const character = text[at];
  if (character === "'" || character === '"' || character === '`') {
    let end = at + 1;
    while (end < text.length) {
      if (text[end] === character) {
        if (text[end + 1] !== character) return end + 1;
        end++;
      }
      end++;
    }
    return text.length;
  }
  if (text.startsWith('--', at)) {
    const end = text.indexOf('\n', at);
    return end < 0 ? text.length : end;
  }
  if (text.startsWith('/*', at)) return skipComment(text, at);
  if (text.startsWith('$$', at)) {
    const end = text.indexOf('$$', at + 2);
    return end < 0 ? text.length : end + 2;
  }
  return at;
}

/** Comments may be nested. */
function skipComment(text: string, at: number): number {
  let depth = 0;
  let end = at;
  while (end < text.length) {
    if (text.startsWith('/*', end)) {
      depth++;
      end += 2;
    } else if (text.startsWith('*/', end)) {
      depth--;
      end += 2;
      if (depth === 0) return end;
    } else {
      end++;
    }
  }
  return end;
}

export function split(text: string): Piece[] {
  const pieces: Piece[] = [];
  let from = 0;
  let marks = 0;
  let highest = 0;
  let content = false;
  const finish = (end: number) => {
    if (content) {
      const raw = text.slice(from, end);
      const lead = raw.length - raw.trimStart().length;
      const trimmed = raw.trim();
      pieces.push({
        text: trimmed,
        from: from + lead,
        to: from + lead + trimmed.length,
        parameters: Math.max(marks, highest),
      });
    }
    from = end + 1;
    marks = 0;
    highest = 0;
    content = false;
  };
  let at = 0;
  while (at < text.length) {
    const end = skip(text, at);
    if (end > at) {
      content ||= !text.startsWith('--', at) && !text.startsWith('/*', at);
      at = end;
      continue;
    }
    const character = text[at] ?? '';
    if (character === ';') {
      finish(at);
    } else if (character === '?') {
      marks++;
    } else if (character === '$') {
      highest = Math.max(highest, Number(/^\$(\d{1,5})/.exec(text.slice(at, at + 6))?.[1] ?? 0));
    }
    if (!/[\s;]/.test(character)) content = true;
    at++;
  }
  finish(text.length);
  return pieces;
}

/** The statement at an offset: the one that contains it, else the one before it, else the first. */
export function pieceAt(pieces: readonly Piece[], offset: number): Piece | null {
  return pieces.findLast((piece) => piece.from <= offset) ?? pieces[0] ?? null;
}
