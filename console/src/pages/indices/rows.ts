import type { CatIndex, DataStream } from '../../api/indices';
import type { LifecycleState } from '../../api/lifecycle';

/** Row of the index table. */
export interface IndexRow {
  index: string;
  health: string;
  open: boolean;
  shards: number;
  /** Null if unknown: a closed index is not measured. */
  documents: number | null;
  /** On this node's disk. */
  storedBytes: number | null;
  /** Total size; for a mounted index including the data in its repository. */
  dataBytes: number | null;
  createdMs: number;
  tier: string | null;
  stream: string | null;
  lifecycle: LifecycleState | null;
}

export interface StreamRow {
  name: string;
  status: string;
  generation: number;
  template: string | null;
  policy: string | null;
  hidden: boolean;
  indices: number;
  documents: number;
  dataBytes: number;
  tiers: string[];
}

const TIERS = ['hot', 'warm', 'cold', 'frozen'];

/** Rank of a tier, fastest first; other values come last. */
export function tierOrder(tier: string): number {
  const at = TIERS.indexOf(tier);
  return at < 0 ? TIERS.length : at;
}

function numberOf(cell: string | null | undefined): number | null {
  return cell === null || cell === undefined || cell === '' ? null : Number(cell);
}

/** Joins indices, data streams and lifecycles to rows. */
export function indexRows(indices: CatIndex[], streams: DataStream[], lifecycles: Record<string, LifecycleState>): IndexRow[] {
  const streamOf = new Map(streams.flatMap((stream) => stream.indices.map(({ index_name }) => [index_name, stream.name] as const)));
  return indices.map((cat) => ({
    index: cat.index,
    health: cat.health,
    open: cat.status === 'open',
    shards: Number(cat.pri),
    documents: numberOf(cat['docs.count']),
    storedBytes: numberOf(cat['store.size']),
    dataBytes: numberOf(cat['dataset.size']),
    createdMs: Number(cat['creation.date']),
    tier: cat.tier || null,
    stream: streamOf.get(cat.index) ?? null,
    lifecycle: lifecycles[cat.index] ?? null,
  }));
}

/** Rows of data streams with the sums of their backing indices. */
export function streamRows(streams: DataStream[], rows: IndexRow[]): StreamRow[] {
  const byIndex = new Map(rows.map((row) => [row.index, row]));
  return streams.map((stream) => {
    const own = stream.indices.flatMap(({ index_name }) => byIndex.get(index_name) ?? []);
    const tiers = new Set(own.flatMap((row) => row.tier?.split(',') ?? []));
    return {
      name: stream.name,
      status: stream.status.toLowerCase(),
      generation: stream.generation,
      template: stream.template ?? null,
      policy: stream.ilm_policy ?? null,
      hidden: stream.hidden,
      indices: stream.indices.length,
      documents: own.reduce((sum, row) => sum + (row.documents ?? 0), 0),
      dataBytes: own.reduce((sum, row) => sum + (row.dataBytes ?? 0), 0),
      tiers: [...tiers].sort((left, right) => tierOrder(left) - tierOrder(right)),
    };
  });
}

/** Short text of a lifecycle state: `hot: rollover, check-rollover-ready`. */
export function lifecycleText(state: LifecycleState | null): string | null {
  if (!state?.managed) return null;
  if (!state.phase) return `${state.policy ?? 'policy'}: not started`;
  if (state.step === 'ERROR') return `${state.phase}: ${state.failed_step ?? 'a step'} failed`;
  if (state.step === 'complete') return `${state.phase}: complete`;
  return `${state.phase}: ${state.action ?? ''}, ${state.step ?? ''}`;
}

/** Returns whether a step has failed and needs attention. */
export function hasFailed(state: LifecycleState | null): boolean {
  return state?.step === 'ERROR' || !!state?.failed_step;
}
