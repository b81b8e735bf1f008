const SPACE = /[ \t\n\r]*/y;
// eslint-disable-next-line no-control-regex -- JSON forbids them in strings.
const SCALAR = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y;

/**
 * Returns the UTF-16 offset at which a text stops being JSON; null for valid JSON. Browser errors do not always contain
 * it.
 */
export function jsonErrorOffset(text: string): number | null {
  let at = 0;
  const skip = (pattern: RegExp): boolean => {
    pattern.lastIndex = at;
    const found = pattern.test(text);
    if (found) at = pattern.lastIndex;
    return found;
  };
  const isNext = (character: string): boolean => {
    skip(SPACE);
    if (text[at] !== character) return false;
    at += 1;
    return true;
  };
  // Stack of open brackets instead of recursion, so that no nesting is too deep.
  const open: ('}' | ']')[] = [];
  const isKey = (): boolean => {
    skip(SPACE);
    return text[at] === '"' && skip(SCALAR) && isNext(':');
  };

  for (;;) {
    if (isNext('{')) {
      if (!isNext('}')) {
        open.push('}');
        if (!isKey()) return at;
        continue;
      }
    } else if (isNext('[')) {
      if (!isNext(']')) {
        open.push(']');
        continue;
      }
    } else if (!skip(SCALAR)) return at;
    // After a value: its container ends or has another value.
    for (;;) {
      const end = open.at(-1);
      if (!end) {
        skip(SPACE);
        return at === text.length ? null : at;
      }
      if (isNext(end)) open.pop();
      else if (isNext(',')) break;
      else return at;
    }
    if (open.at(-1) === '}' && !isKey()) return at;
  }
}
