import { expect, test } from 'vitest';
import { ruleName, ruleSeverity, yamlScalar } from './sigma';

const YAML = `title: 'It''s a "title"' # comment
id: 1
detection:
  title: nested
level: high   # of Sigma
author: "Ann \\"A\\""
`;

test.each([
  ['title', 'It\'s a "title"'],
  ['level', 'high'],
  ['author', 'Ann "A"'],
  ['id', '1'],
  ['status', null],
])('the scalar %s is %s', (name, value) => expect(yamlScalar(YAML, name)).toBe(value));

test('what the definition says comes before what the Sigma rule says', () => {
  expect(ruleName('r', { type: 'sigma', sigma: YAML })).toBe('It\'s a "title"');
  expect(ruleName('r', { type: 'sigma', sigma: YAML, name: 'Other' })).toBe('Other');
  expect(ruleName('r', { type: 'sigma', sigma: 'level: low' })).toBe('r');
  expect(ruleSeverity({ type: 'sigma', sigma: YAML })).toBe('high');
  expect(ruleSeverity({ type: 'sigma', sigma: YAML, severity: 'low' })).toBe('low');
  expect(ruleSeverity({ type: 'query', name: 'r', query: '*' })).toBe('medium');
});
