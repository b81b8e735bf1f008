import { expect, test } from 'vitest';
import type { RuleDefinition } from '../../api/detection-rules';
import { EMPTY_RULE, newRulePath, queryOfUrl, ruleDefinition, ruleInput, ruleMissing, ruleProblems, suggestedId, withType } from './form';
import { historyParts } from './history-parts';
import { addStep, moveStep } from './window-form';

const STORED: RuleDefinition[] = [
  {
    type: 'query',
    name: 'Logon as root',
    description: 'text',
    query: 'user.name: root',
    severity: 'high',
    risk_score: 80,
    tags: ['attack.t1078'],
    references: ['https://example.com'],
    enabled: false,
    exceptions: [{ query: 'host.name: lab*', expires: '2026-12-31' }, { name: 'Scanner', query: 'source.ip:10.0.0.1', language: 'lucene' }, { query: { term: { a: 1 } } }],
    tenant: 'acme',
    pipelines: ['web'],
    group_by: ['host.name'],
    channels: ['mail'],
  },
  { type: 'query', name: 'x', query: 'a:b', language: 'lucene' },
  { type: 'query', name: 'x', query: { bool: { filter: [{ term: { a: 'b' } }] } } },
  { type: 'sigma', sigma: 'title: x', tags: [] },
  { type: 'threshold', name: 'x', query: '*', window: '1m', threshold: { count: 20 }, lateness: '1m' },
  { type: 'threshold', name: 'x', query: '*', window: '1m', threshold: { distinct: 'destination.port', at_least: 20 } },
  { type: 'absence', name: 'x', query: '*', group_by: ['observer.name'], after: '10m' },
  { type: 'new_value', name: 'x', query: '*', group_by: ['user.name'], learn_for: '1d' },
  { type: 'sequence', name: 'x', within: '10m', steps: [{ query: 'a: 1' }, { name: 'second', query: 'a:2', language: 'lucene' }, { query: { term: { a: 3 } } }], lateness: '1m', max_keys: 5 },
  { type: 'sequence', name: 'x', within: '10m', ordered: false, steps: [{ query: 'a: 1' }, { query: 'a: 2' }] },
  { type: 'rate_of_change', name: 'x', query: '*', group_by: ['observer.name'], window: '5m', change: { rise_factor: 2.5, drop_percent: 80, baseline_windows: 6, min_events: 100 }, lateness: '5s' },
  { type: 'rate_of_change', name: 'x', query: 'a:b', language: 'lucene', window: '1h', change: { drop_percent: 80 } },
  { type: 'sigma', sigma: 'title: x', lateness: '1m', max_keys: 9 },
];

test.each(STORED)('the form keeps a definition: %j', (definition) => expect(ruleDefinition(ruleInput(definition), definition)).toEqual(definition));

test('cleared inputs remove their members', () => {
  const [stored] = STORED as [RuleDefinition];
  const input = { ...EMPTY_RULE, name: ' Other ', query: { text: '*', language: 'kuery' as const } };
  expect(ruleDefinition(input, stored)).toEqual({ type: 'query', name: 'Other', query: '*', references: ['https://example.com'], tags: [] });
  expect(ruleDefinition(input, null)).toEqual({ type: 'query', name: 'Other', query: '*' });
});

test('a rule that changes its type has the members of the new one', () => {
  const stored: RuleDefinition = { type: 'absence', name: 'x', query: '*', group_by: ['a'], after: '10m' };
  const input = { ...ruleInput(stored), type: 'threshold' as const, measure: 'sum' as const, field: ' network.bytes ', atLeast: 5 };
  expect(ruleDefinition(input, stored)).toEqual({ type: 'threshold', name: 'x', query: '*', group_by: ['a'], window: '5m', threshold: { sum: 'network.bytes', at_least: 5 } });
});

test('a query of the query DSL has to be JSON', () => {
  expect(() => ruleDefinition({ ...EMPTY_RULE, query: { text: '{', language: 'dsl' } }, null)).toThrow(SyntaxError);
});

test('an id is made of the letters and digits of the name', () => {
  expect(suggestedId('  Éxécution: "cmd.exe" ')).toBe('execution-cmd-exe');
  expect(suggestedId('日本')).toBe('');
});

test.each([{ text: 'a: "b & c"', language: 'kuery' }, { text: '{"a":1}', language: 'dsl' }] as const)('a query survives the URL of the form: %j', (query) =>
  expect(queryOfUrl(new URLSearchParams(newRulePath(query).split('?')[1]))).toEqual(query),
);

test('a rule that changes its type does not keep members that the server refuses', () => {
  const stored: RuleDefinition = { type: 'rate_of_change', name: 'x', query: '*', group_by: ['a'], window: '5m', change: { rise_factor: 3 }, lateness: '1m', max_keys: 9 };
  const input = ruleInput(stored);
  expect(ruleDefinition(withType(input, 'query'), stored)).toEqual({ type: 'query', name: 'x', query: '*', group_by: ['a'] });
  expect(ruleDefinition(withType(input, 'absence'), stored)).toEqual({ type: 'absence', name: 'x', query: '*', group_by: ['a'], after: '10m', max_keys: 9 });
});

test('a typed query becomes the first step of a sequence, and back', () => {
  const query = { text: 'a: 1', language: 'lucene' as const };
  const sequence = withType({ ...EMPTY_RULE, query }, 'sequence');
  expect(sequence.steps.map(({ text }) => text)).toEqual(['a: 1', '']);
  expect(withType({ ...sequence, query: EMPTY_RULE.query }, 'query').query).toEqual(query);
  const own = { ...EMPTY_RULE, query, steps: ruleInput(STORED[8] as RuleDefinition).steps };
  expect(withType(own, 'sequence').steps[0]?.text).toBe('a: 1');
  expect(withType(own, 'sequence').steps).toBe(own.steps);
});

test('steps move, and a new one has an identity of its own', () => {
  const steps = addStep(EMPTY_RULE.steps);
  const keys = (of: typeof steps) => of.map(({ key }) => key);
  expect(keys(steps)).toEqual([0, 1, 2]);
  expect(keys(moveStep(steps, 0, 2))).toEqual([1, 2, 0]);
  expect(keys(moveStep(steps, 2, 1))).toEqual([0, 2, 1]);
  expect(keys(addStep(steps.slice(2)))).toEqual([2, 3]);
});

const step = (key: number, name: string, text = 'a: 1') => ({ key, name, text, language: 'kuery' as const });

test.each([
  [{ type: 'sequence', within: '8d' }, 'within', 'From 1s to 7d'],
  [{ type: 'sequence', within: 'soon' }, 'within', 'such as'],
  [{ type: 'sequence', steps: [step(0, ''), step(1, 'step 1')] }, 'step 1 name', 'Another step'],
  [{ type: 'sequence', steps: [step(0, 'a'), step(1, ' a ')] }, 'step 1 name', 'Another step'],
  [{ type: 'sequence', steps: [step(0, 'a'), { ...step(1, 'b', '{'), language: 'dsl' }] }, 'step 1 query', 'JSON'],
  [{ type: 'sequence', lateness: '2d' }, 'lateness', 'At most 1d'],
  [{ type: 'rate_of_change', window: '25h' }, 'window', 'From 1s to 1d'],
  [{ type: 'rate_of_change', riseFactor: 1 }, 'riseFactor', 'More than 1'],
  [{ type: 'rate_of_change', dropPercent: 101 }, 'dropPercent', 'at most 100'],
  [{ type: 'rate_of_change', dropPercent: 0 }, 'dropPercent', 'More than 0'],
  [{ type: 'rate_of_change', baselineWindows: 1001 }, 'baselineWindows', '1,000'],
  [{ type: 'rate_of_change', minEvents: 0 }, 'minEvents', 'At least 1'],
  [{ type: 'threshold', atLeast: 0 }, 'atLeast', 'More than 0'],
  [{ type: 'absence', after: '9s' }, 'after', 'From 10s to 30d'],
  [{ type: 'new_value', learnFor: '366d' }, 'learnFor', 'At most 365d'],
] as [Partial<typeof EMPTY_RULE>, string, string][])('what the server would refuse is named: %j', (input, place, reason) => {
  const problems = ruleProblems({ ...EMPTY_RULE, ...input });
  expect(Object.keys(problems)).toEqual([place]);
  expect(problems[place]).toContain(reason);
});

test.each(STORED.filter(({ type }) => type !== 'sigma'))('nothing is wrong with what the server has stored: %j', (definition) => {
  expect(ruleProblems(ruleInput(definition))).toEqual({});
  expect(ruleMissing(ruleInput(definition))).toEqual([]);
});

test('what is missing is named as its input is labelled', () => {
  expect(ruleMissing({ ...EMPTY_RULE, type: 'sequence', within: '', steps: [step(0, ''), step(1, '', '')] })).toEqual(['Name', 'Within', 'Query of step 2']);
  expect(ruleMissing({ ...EMPTY_RULE, type: 'rate_of_change' })).toEqual(['Name', 'Query', 'Rise or Drop']);
  expect(ruleMissing({ ...EMPTY_RULE, type: 'absence', name: 'x', query: step(0, ''), exceptions: [{ ...step(0, '', ' '), expires: '' }] })).toEqual(['Group by', 'Exception 1']);
});

test('history has one search for each step of a sequence, without what only windows have', () => {
  const parts = historyParts({ ...ruleInput(STORED[8] as RuleDefinition), tenant: 'acme', groupBy: ['host.name'] });
  expect(parts.map(({ label, countsAlerts }) => [label, countsAlerts])).toEqual([['Step 1', false], ['Step 2 (second)', false], ['Step 3', false]]);
  expect(parts.map(({ rule }) => rule)).toEqual([
    { type: 'query', name: 'x', tenant: 'acme', query: 'a: 1' },
    { type: 'query', name: 'x', tenant: 'acme', query: 'a:2', language: 'lucene' },
    { type: 'query', name: 'x', tenant: 'acme', query: { term: { a: 3 } } },
  ]);
  const [rate] = historyParts({ ...EMPTY_RULE, type: 'rate_of_change', query: step(0, ''), riseFactor: 3, exceptions: [{ ...step(0, '', 'b: 2'), expires: '' }] });
  expect(rate).toEqual({ label: null, countsAlerts: false, rule: { type: 'query', name: 'Test', query: 'a: 1', exceptions: [{ query: 'b: 2' }] } });
  const [threshold] = historyParts({ ...EMPTY_RULE, type: 'threshold', query: step(0, ''), atLeast: 5 });
  expect(threshold).toMatchObject({ countsAlerts: true, rule: { type: 'threshold', threshold: { count: 5 } } });
});
