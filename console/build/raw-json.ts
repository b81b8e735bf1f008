/**
 * Polyfill for tests under Node 20, whose `JSON.stringify` misprints `JSON.rawJSON` next to text that is not Latin-1. It makes
 * tests behave like current browsers, and does nothing if the bug is absent.
 */
const json = JSON as unknown as { rawJSON?: (text: string) => object; isRawJSON?: (value: unknown) => value is { rawJSON: string } };
const { rawJSON, isRawJSON } = json;

if (rawJSON && isRawJSON && JSON.stringify(['Ā', rawJSON('1')]) !== '["Ā",1]') {
  const stringify = JSON.stringify.bind(JSON) as (value: unknown, replacer?: unknown, space?: string | number) => string | undefined;
  const mended = (value: unknown, replacer?: unknown, space?: string | number): string | undefined => {
    if (Array.isArray(replacer)) return stringify(value, replacer, space);
    const marked = function (this: unknown, key: string, item: unknown): unknown {
      const own: unknown = typeof replacer === 'function' ? (replacer.call(this, key, item) as unknown) : item;
      return isRawJSON(own) ? `raw number ${own.rawJSON}` : own;
    };
    return stringify(value, marked, space)?.replace(/"raw number (-?\d+)"/g, '$1');
  };
  JSON.stringify = mended as typeof JSON.stringify;
}
