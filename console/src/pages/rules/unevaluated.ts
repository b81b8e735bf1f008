import type { Unevaluated } from '../../api/detection-rules';

/** Says on how many events a rule could not be evaluated, and why; empty if it was on all. */
export function unevaluatedText(unevaluated: Unevaluated | undefined, print: (number: number) => string): string {
  if (!unevaluated || unevaluated.events === 0) return '';
  const { events, reasons } = unevaluated;
  const named = reasons.map(({ reason, events }) => `${reason} (${print(events)})`).join(', ');
  return `; ${print(events)} ${events === 1 ? 'event' : 'events'} could not be evaluated: ${named}`;
}

/** Adds the events of one answer to those of others. */
export function addUnevaluated(one: Unevaluated, other: Unevaluated | undefined): Unevaluated {
  const reasons = one.reasons.map((reason) => ({ ...reason }));
  for (const { reason, events } of other?.reasons ?? []) {
    const known = reasons.find((known) => known.reason === reason);
    if (known) known.events += events;
    else reasons.push({ reason, events });
  }
  return { events: one.events + (other?.events ?? 0), reasons };
}
