import type { RuleDefinition, RuleType } from '../../api/detection-rules';
import { durationProblem } from '../../lib/duration';
import { EMPTY_QUERY, type QueryInput, queryInput, queryMembers, queryProblem } from './query-form';

/** What a threshold is compared with. */
export type Measure = 'count' | 'distinct' | 'sum';

/** Step of a sequence. */
export interface StepInput extends QueryInput {
  /** Identity in the form, which a step keeps when it moves. */
  key: number;
  name: string;
}

/** Members of rules over several events. */
export interface WindowInput {
  /** Length of the window of a threshold or a rate. */
  window: string;
  measure: Measure;
  /** Field of `distinct` and `sum`. */
  field: string;
  atLeast: number | '';
  /** Time of an absence. */
  after: string;
  learnFor: string;
  /** Longest time of a sequence. */
  within: string;
  ordered: boolean;
  steps: StepInput[];
  /** Of a rate of change; empty: no rise raises an alert. */
  riseFactor: number | '';
  dropPercent: number | '';
  /** Empty: the default of the server. */
  baselineWindows: number | '';
  minEvents: number | '';
  lateness: string;
}

/** Limits and defaults of the server (`window_rule.rs`, `steps.rs`). */
export const STEPS_MIN = 2;
export const STEPS_MAX = 10;
export const BASELINE_WINDOWS = 12;
export const MIN_EVENTS = 20;
const BASELINE_WINDOWS_MAX = 1000;
const SECOND_MS = 1000;
const DAY_MS = 86_400_000;

const emptyStep = (key: number): StepInput => ({ key, name: '', ...EMPTY_QUERY });

export const EMPTY_WINDOW: WindowInput = {
  window: '5m',
  measure: 'count',
  field: '',
  atLeast: '',
  after: '10m',
  learnFor: '7d',
  within: '10m',
  ordered: true,
  steps: [emptyStep(0), emptyStep(1)],
  riseFactor: '',
  dropPercent: '',
  baselineWindows: '',
  minEvents: '',
  lateness: '',
};

/** Whether a rule of a type waits for late events. */
export const hasLateness = (type: RuleType) => type === 'threshold' || type === 'sequence' || type === 'rate_of_change';

/** Appends a step. */
export const addStep = (steps: StepInput[]): StepInput[] => [...steps, emptyStep(Math.max(...steps.map(({ key }) => key), -1) + 1)];

/** Swaps a step with the one at another place. */
export function moveStep(steps: StepInput[], from: number, to: number): StepInput[] {
  const moved = [...steps];
  const [step] = moved.splice(from, 1);
  if (step) moved.splice(to, 0, step);
  return moved;
}

interface Threshold {
  count?: number;
  distinct?: string;
  sum?: string;
  at_least?: number;
}

interface Change {
  rise_factor?: number;
  drop_percent?: number;
  baseline_windows?: number;
  min_events?: number;
}

type Step = Pick<RuleDefinition, 'query' | 'language'> & { name?: string };

/** Converts the members of a stored definition. */
export function windowInput(definition: RuleDefinition): WindowInput {
  const text = (name: string, otherwise: string) => (typeof definition[name] === 'string' ? definition[name] : otherwise);
  const threshold = (definition.threshold ?? {}) as Threshold;
  const change = (definition.change ?? {}) as Change;
  const steps = (definition.steps ?? []) as Step[];
  return {
    window: text('window', EMPTY_WINDOW.window),
    measure: threshold.distinct !== undefined ? 'distinct' : threshold.sum !== undefined ? 'sum' : 'count',
    field: threshold.distinct ?? threshold.sum ?? '',
    atLeast: threshold.count ?? threshold.at_least ?? '',
    after: text('after', EMPTY_WINDOW.after),
    learnFor: text('learn_for', EMPTY_WINDOW.learnFor),
    within: text('within', EMPTY_WINDOW.within),
    ordered: definition.ordered !== false,
    steps: steps.length > 0 ? steps.map((step, key) => ({ key, name: step.name ?? '', ...queryInput(step) })) : EMPTY_WINDOW.steps,
    riseFactor: change.rise_factor ?? '',
    dropPercent: change.drop_percent ?? '',
    baselineWindows: change.baseline_windows ?? '',
    minEvents: change.min_events ?? '',
    lateness: text('lateness', ''),
  };
}

/** Names of the members that only some types have; of each form one replaces them all. */
export const WINDOW_MEMBERS = ['window', 'threshold', 'after', 'learn_for', 'within', 'ordered', 'steps', 'change', 'lateness'];

/** Members of a definition that only its type has. Throws if a query of the query DSL is not valid JSON. */
export function windowMembers(type: RuleType, input: WindowInput): Record<string, unknown> {
  const lateness = hasLateness(type) && input.lateness.trim() !== '' && { lateness: input.lateness.trim() };
  switch (type) {
    case 'threshold': {
      const { measure, atLeast } = input;
      const threshold = measure === 'count' ? { count: atLeast } : { [measure]: input.field.trim(), at_least: atLeast };
      return { window: input.window.trim(), threshold, ...lateness };
    }
    case 'absence':
      return { after: input.after.trim() };
    case 'new_value':
      return { learn_for: input.learnFor.trim() };
    case 'sequence': {
      const steps = input.steps.map((step) => ({ ...(step.name.trim() && { name: step.name.trim() }), ...queryMembers(step) }));
      return { within: input.within.trim(), ...(!input.ordered && { ordered: false }), steps, ...lateness };
    }
    case 'rate_of_change': {
      const members = { rise_factor: input.riseFactor, drop_percent: input.dropPercent, baseline_windows: input.baselineWindows, min_events: input.minEvents };
      const change = Object.fromEntries(Object.entries(members).filter(([, value]) => value !== ''));
      return { window: input.window.trim(), change, ...lateness };
    }
    default:
      return {};
  }
}

/** Why inputs are invalid, by their names; `step N name` and `step N query` for those of steps, from 0. */
export type Problems = Readonly<Record<string, string | undefined>>;

/** Returns what is wrong with the members of the type, as far as the browser knows. Missing inputs are not wrong. */
export function windowProblems(type: RuleType, input: WindowInput): Problems {
  const found: Record<string, string | undefined> = {};
  const check = (name: keyof WindowInput & string, problem: string | null | false) => {
    if (problem) found[name] = problem;
  };
  const duration = (name: 'window' | 'within' | 'after' | 'learnFor' | 'lateness', leastMs: number, mostMs: number) => check(name, durationProblem(input[name], leastMs, mostMs));
  if (type === 'threshold' || type === 'rate_of_change') duration('window', SECOND_MS, DAY_MS);
  if (type === 'threshold') check('atLeast', input.atLeast !== '' && input.atLeast <= 0 && 'More than 0');
  if (type === 'absence') duration('after', 10 * SECOND_MS, 30 * DAY_MS);
  if (type === 'new_value') duration('learnFor', 0, 365 * DAY_MS);
  if (hasLateness(type)) duration('lateness', 0, DAY_MS);
  if (type === 'sequence') {
    duration('within', SECOND_MS, 7 * DAY_MS);
    // A step without a name has its number as its name, and may not have that of another one.
    const names = input.steps.map(({ name }, at) => name.trim() || `step ${at + 1}`);
    for (const [at, step] of input.steps.entries()) {
      const problem = queryProblem(step);
      if (problem) found[`step ${at} query`] = problem;
      if (names.indexOf(names[at] as string) < at) found[`step ${at} name`] = 'Another step has this name';
    }
  }
  if (type === 'rate_of_change') {
    const { riseFactor, dropPercent, baselineWindows, minEvents } = input;
    check('riseFactor', riseFactor !== '' && !(riseFactor > 1 && riseFactor <= 1e6) && 'More than 1, at most 1,000,000');
    check('dropPercent', dropPercent !== '' && !(dropPercent > 0 && dropPercent <= 100) && 'More than 0, at most 100');
    check('baselineWindows', baselineWindows !== '' && !(baselineWindows >= 1 && baselineWindows <= BASELINE_WINDOWS_MAX) && 'From 1 to 1,000');
    check('minEvents', minEvents !== '' && minEvents < 1 && 'At least 1');
  }
  return found;
}

/** Returns the labels of inputs of the type that are empty and have to be filled in. */
export function windowMissing(type: RuleType, input: WindowInput, groupBy: string[]): string[] {
  const needs: [string, boolean][] = [];
  const isThere = (text: string) => text.trim() !== '';
  if (type === 'threshold' || type === 'rate_of_change') needs.push(['Window', isThere(input.window)]);
  if (type === 'threshold') needs.push(['Field', input.measure === 'count' || isThere(input.field)], ['At least', input.atLeast !== '']);
  if (type === 'rate_of_change') needs.push(['Rise or Drop', input.riseFactor !== '' || input.dropPercent !== '']);
  if (type === 'absence') needs.push(['After', isThere(input.after)]);
  if (type === 'new_value') needs.push(['Learn for', isThere(input.learnFor)]);
  if (type === 'absence' || type === 'new_value') needs.push(['Group by', groupBy.length > 0]);
  if (type === 'sequence') needs.push(['Within', isThere(input.within)], ...input.steps.map(({ text }, at): [string, boolean] => [`Query of step ${at + 1}`, isThere(text)]));
  return needs.flatMap(([label, isFilled]) => (isFilled ? [] : [label]));
}
