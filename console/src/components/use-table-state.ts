import { useSearchParams } from 'react-router';

/** How a table is sorted and what is sought in it, kept in the address: `sort=-size&find=web`. */
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
