import type { Field } from '../../api/fields';

/** Name of the keyword sub-field in dynamic mappings. */
const KEYWORD = '.keyword';

const isText = (type: string | undefined) => type === 'text' || type === 'match_only_text';

type Known = ReadonlyMap<string, Pick<Field, 'type' | 'aggregatable'>>;

/** Returns the field to count and sort `name` by: for a text its keyword sub-field, if there is one. */
export function valueField(name: string, fields: Known): string {
  const keyword = name + KEYWORD;
  return isText(fields.get(name)?.type) && fields.get(keyword)?.aggregatable ? keyword : name;
}

/** Returns the field that the page shows for `name`: for the keyword sub-field of a text, the text. */
export function shownField(name: string, fields: Known): string {
  if (!name.endsWith(KEYWORD)) return name;
  const text = name.slice(0, -KEYWORD.length);
  return valueField(text, fields) === name ? text : name;
}

/** Merges each text field with its keyword sub-field for the field list. */
export function shownFields(fields: readonly Field[], byName: ReadonlyMap<string, Field>): Field[] {
  return fields.flatMap((field) => {
    if (shownField(field.name, byName) !== field.name) return [];
    const keyword = byName.get(valueField(field.name, byName));
    return keyword?.in_use && !field.in_use ? { ...field, in_use: true } : field;
  });
}
