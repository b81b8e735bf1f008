import type { Unevaluated } from './detection-rules';
import { request } from './request';

/** Place in a partition. */
export interface CoverageMark {
  /** When the event arrived. */
  received: string;
  offset?: number;
}

/** Events of a partition that follow each other. */
export interface CoverageInterval {
  pipeline: string;
  partition?: string;
  from: CoverageMark;
  /** Missing: it goes on. */
  to?: CoverageMark;
}

export interface RuleHole extends CoverageInterval {
  /** Of one that has ended: whether a run has read it. */
  filled?: boolean;
  /** Why the rule was not evaluated; of one that has ended, only if its budget was exhausted. */
  reason?: string;
  /** Why it is not filled by itself, or by the last run. */
  not_filled?: string;
}

export interface RuleCoverage {
  coverage: CoverageInterval[];
  holes: RuleHole[];
  /** The ledger has more than the answer. */
  partial: boolean;
}

/** What a run has found. */
export interface RunResult {
  /** False: it would fetch so much from snapshot repositories that it has to be confirmed. */
  ran: boolean;
  cost?: { bytes: number };
  alerts?: number;
  existing?: number;
  /** False: there are more events, from `continue_from` on. */
  complete?: boolean;
  continue_from?: string;
  partial?: boolean;
  /** Of a Sigma rule: events on which it could not be evaluated again. */
  not_evaluated?: Unevaluated;
}

const pathOf = (id: string) => `/_firn/rules/${encodeURIComponent(id)}`;

/** On which events a rule was evaluated. */
export const ruleCoverage = (id: string, signal?: AbortSignal) => request<RuleCoverage>(`${pathOf(id)}/_coverage`, signal ? { signal } : {});

/** Raises the alerts of a rule for stored events between two times. */
export const runRule = (id: string, body: { index: string; from: string; to: string; fetch?: boolean }) =>
  request<RunResult>(`${pathOf(id)}/_run`, { method: 'POST', body });
