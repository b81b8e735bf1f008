import { useEffect, useMemo, useState } from 'react';
import { type Cardinality, discoverStage, type FieldCount, type Question } from '../../api/discover';
import { incomplete, type Incomplete, type Stage } from './run';

/** Who scrolls past fields does not want them counted. */
const PAUSE_MS = 250;
/** Fields that are counted at a time. */
const FIELDS_MAX = 40;

interface More {
  question: Question | null;
  counts: FieldCount[];
  incomplete: Incomplete | null;
}

export interface Counts {
  byName: Map<string, FieldCount>;
  /** What the counts of further fields leave out. */
  incomplete: Incomplete | null;
}

const NOTHING: FieldCount[] = [];

/** Counts by the name of their field: those of the run, and those of further fields that came into sight. */
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
        // It is not asked again and again: the field is there without a count, as long as the question is the same.
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
