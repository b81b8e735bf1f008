import { expect, test } from 'vitest';
import type { RuleDefinition } from '../../api/detection-rules';
import { EMPTY_RULE, newRulePath, queryOfUrl, ruleDefinition, ruleInput, suggestedId } from './form';

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
