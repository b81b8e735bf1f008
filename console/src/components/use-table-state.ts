import { useSearchParams } from 'react-router';

/** Sort and search text of a table, stored in the URL: `sort=-size&find=web`. */
export function useTableState(name: string, initialSort?: string) {
  const [params, setParams] = useSearchParams();
  const key = (part: string) => (name ? `${name}.${part}` : part);
  const set = (part: string, value: string) =>
    setParams(
      (before) => {
        const after = new URLSearchParams(before);
        if (value) after.set(key(part), value);
        else after.delete(key(part));
        return after;
      },
      { replace: true },
    );
  return {
    sort: params.get(key('sort')) ?? initialSort ?? '',
    find: params.get(key('find')) ?? '',
    setSort: (sort: string) => set('sort', sort),
    setFind: (find: string) => set('find', find),
  };
}
