import { useEffect, useMemo, useState } from 'react';
import { type Cardinality, discoverStage, type FieldCount, type Question } from '../../api/discover';
import type { Stage } from './run';

/** Who scrolls past fields does not want them counted. */
const PAUSE_MS = 250;
/** Fields that are counted at a time. */
const FIELDS_MAX = 40;

interface More {
  question: Question | null;
  counts: FieldCount[];
}

const NOTHING: FieldCount[] = [];

/** Counts by the name of their field: those of the run, and those of further fields that came into sight. */
export function useCounts(stage: Stage<Cardinality>, question: Question | null, inSight: string[]): Map<string, FieldCount> {
  const [more, setMore] = useState<More>({ question: null, counts: NOTHING });
  const further = more.question === question ? more.counts : NOTHING;
  const counts = useMemo(() => new Map([...(stage.result?.fields ?? []), ...further].map((field) => [field.name, field])), [stage.result, further]);
  const missing = stage.status === 'done' ? inSight.filter((name) => !counts.has(name)).slice(0, FIELDS_MAX) : [];
  const key = missing.join('\n');
  useEffect(() => {
    if (!question || key === '') return;
    const abort = new AbortController();
    const timer = window.setTimeout(() => {
      const fields = key.split('\n');
      const add = (counted: FieldCount[]) =>
        setMore((more) => ({ question, counts: [...(more.question === question ? more.counts : NOTHING), ...counted] }));
      discoverStage<Cardinality>(question, { stage: 'cardinality', fields }, abort.signal, 'ask').then(
        ({ result }) => add(result.fields),
        // It is not asked again and again: the field is there without a count, as long as the question is the same.
        () => abort.signal.aborted || add(fields.map((name) => ({ name, type: null, cardinality: null, exact: false, documents: null }))),
      );
    }, PAUSE_MS);
    return () => {
      window.clearTimeout(timer);
      abort.abort();
    };
  }, [question, key]);
  return counts;
}
