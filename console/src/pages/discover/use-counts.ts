import { useEffect, useMemo, useState } from 'react';
import { type Cardinality, discoverStage, type FieldCount, type Question } from '../../api/discover';
import { incomplete, type Incomplete, type Stage } from './run';

/** Delay before counting, so that fields that only scroll past are not counted. */
const PAUSE_MS = 250;
/** Maximum number of fields per request. */
const FIELDS_MAX = 40;

interface More {
  question: Question | null;
  counts: FieldCount[];
  incomplete: Incomplete | null;
}

export interface Counts {
  byName: Map<string, FieldCount>;
  /** Shards that are missing from the counts of further fields. */
  incomplete: Incomplete | null;
}

const NOTHING: FieldCount[] = [];

/** Returns counts by field name: those of the run, and those of further fields that became visible. */
export function useCounts(stage: Stage<Cardinality>, question: Question | null, inSight: string[]): Counts {
  const [more, setMore] = useState<More>({ question: null, counts: NOTHING, incomplete: null });
  const further = more.question === question ? more.counts : NOTHING;
  const counts = useMemo(() => new Map([...(stage.result?.fields ?? []), ...further].map((field) => [field.name, field])), [stage.result, further]);
  const missing = stage.status === 'done' ? inSight.filter((name) => !counts.has(name)).slice(0, FIELDS_MAX) : [];
  const key = missing.join('\n');
  useEffect(() => {
    if (!question || key === '') return;
    const abort = new AbortController();
    const timer = window.setTimeout(() => {
      const fields = key.split('\n');
      const add = (counted: FieldCount[], left: Incomplete | null = null) =>
        setMore((more) => {
          const known = more.question === question;
          return { question, counts: [...(known ? more.counts : NOTHING), ...counted], incomplete: left ?? (known ? more.incomplete : null) };
        });
      discoverStage<Cardinality>(question, { stage: 'cardinality', fields }, abort.signal, 'ask').then(
        (done) => add(done.result.fields, incomplete(done)),
        // A failed count is not retried: the field stays without a count until the request changes.
        () => abort.signal.aborted || add(fields.map((name) => ({ name, type: null, cardinality: null, exact: false, documents: null }))),
      );
    }, PAUSE_MS);
    return () => {
      window.clearTimeout(timer);
      abort.abort();
    };
  }, [question, key]);
  return { byName: counts, incomplete: more.question === question ? more.incomplete : null };
}
