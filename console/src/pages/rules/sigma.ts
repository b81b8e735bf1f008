import type { RuleDefinition } from '../../api/detection-rules';
import { SEVERITIES, type Severity } from '../../api/alerts';

/** Returns a top-level scalar of a YAML text; null if it is missing. Enough for the title and the level of a Sigma rule. */
export function yamlScalar(yaml: string, name: string): string | null {
  const found = new RegExp(`^${name}:[ \\t]*(.*)$`, 'm').exec(yaml)?.[1]?.trim();
  if (!found) return null;
  const quoted = /^'((?:[^']|'')*)'|^"((?:[^"\\]|\\.)*)"/.exec(found);
  if (quoted) return quoted[1]?.replaceAll("''", "'") ?? quoted[2]?.replace(/\\(.)/g, '$1') ?? null;
  return found.replace(/\s+#.*$/, '') || null;
}

/** Returns the name of a rule: of a Sigma rule its title, unless the definition has another. */
export function ruleName(id: string, { name, sigma }: RuleDefinition): string {
  return name || (sigma && yamlScalar(sigma, 'title')) || id;
}

/** Returns the severity of a rule. Without one it is `medium`, as on the server. */
export function ruleSeverity({ severity, sigma }: RuleDefinition): Severity {
  const level = severity ?? (sigma && yamlScalar(sigma, 'level'));
  return SEVERITIES.find((known) => known === level) ?? 'medium';
}
