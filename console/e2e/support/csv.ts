/** Parses CSV of RFC 4180. An empty field is null if unquoted, and empty text if quoted. */
export function readCsv(text: string): (string | null)[][] {
  const rows: (string | null)[][] = [];
  let row: (string | null)[] = [];
  let at = 0;
  while (at < text.length) {
    let field: string | null;
    if (text[at] === '"') {
      field = '';
      for (at += 1; ; at += 1) {
        if (at >= text.length) throw new Error(`a quoted field does not end: ${field.slice(0, 100)}`);
        if (text[at] !== '"') field += text[at];
        else if (text[at + 1] === '"') {
          field += '"';
          at += 1;
        } else break;
      }
      at += 1;
    } else {
      const end = /[,\r\n]|$/.exec(text.slice(at))?.index ?? 0;
      field = text.slice(at, at + end);
      if (field.includes('"')) throw new Error(`a quote in an unquoted field: ${field.slice(0, 100)}`);
      at += end;
      if (field === '') field = null;
    }
    row.push(field);
    if (text[at] === ',') {
      at += 1;
      // A trailing comma is followed by a missing field.
      if (/^(\r?\n|$)/.test(text.slice(at, at + 2))) row.push(null);
      else continue;
    }
    if (text.startsWith('\r\n', at)) at += 2;
    else if (text[at] === '\n') at += 1;
    else if (at < text.length) throw new Error(`unexpected text after a field: ${JSON.stringify(text[at])}`);
    rows.push(row);
    row = [];
  }
  return rows;
}
