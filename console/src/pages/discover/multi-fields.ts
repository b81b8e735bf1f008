import type { Field } from '../../api/fields';

/** What dynamic mappings call the keyword beside a text. */
const KEYWORD = '.keyword';

const isText = (type: string | undefined) => type === 'text' || type === 'match_only_text';

type Known = ReadonlyMap<string, Pick<Field, 'type' | 'aggregatable'>>;

/** The field that has the whole values of `name`, to count and to sort by: of a text the keyword beside it, if there is one. */
export function valueField(name: string, fields: Known): string {
  const keyword = name + KEYWORD;
  return isText(fields.get(name)?.type) && fields.get(keyword)?.aggregatable ? keyword : name;
}

/** The field that `name` is a part of on the page: of the keyword beside a text the text. */
export function shownField(name: string, fields: Known): string {
  if (!name.endsWith(KEYWORD)) return name;
  const text = name.slice(0, -KEYWORD.length);
  return valueField(text, fields) === name ? text : name;
}

/** Fields as they are listed: a text and the keyword beside it are one. */
export function shownFields(fields: readonly Field[], byName: ReadonlyMap<string, Field>): Field[] {
  return fields.flatMap((field) => {
    if (shownField(field.name, byName) !== field.name) return [];
    const keyword = byName.get(valueField(field.name, byName));
    return keyword?.in_use && !field.in_use ? { ...field, in_use: true } : field;
  });
}
