import { useNavigate, useSearchParams } from 'react-router';
import { PageFrame } from '../../components/PageFrame';
import { EMPTY_RULE, queryOfUrl } from './form';
import { RuleForm } from './RuleForm';
import { useRuleCache } from './use-rules';

/** Page that creates a query rule. Its URL may have the query. */
export function NewRule() {
  const navigate = useNavigate();
  const cache = useRuleCache();
  const [params] = useSearchParams();
  return (
    <PageFrame title="Create rule" about="Event pipelines evaluate the rule on each new event and store an alert for each match." within={{ list: 'Rules', to: '/rules', name: 'Create rule' }}>
      <RuleForm
        id={null}
        stored={null}
        initial={{ ...EMPTY_RULE, query: queryOfUrl(params) }}
        onSaved={(id, definition) => {
          cache.stored(id, definition);
          void navigate(`/rules/${encodeURIComponent(id)}`);
        }}
      />
    </PageFrame>
  );
}
