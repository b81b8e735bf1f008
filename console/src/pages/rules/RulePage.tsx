import { Anchor, Button } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link, useNavigate, useParams } from 'react-router';
import { deleteRule, fetchRule } from '../../api/detection-rules';
import { ApiError } from '../../api/errors';
import { Answer } from '../../components/Answer';
import { Confirm } from '../../components/Confirm';
import { Empty } from '../../components/Empty';
import { PageFrame } from '../../components/PageFrame';
import { ruleInput } from './form';
import { RuleCoverage } from './RuleCoverage';
import { RuleForm } from './RuleForm';
import { alertsPath } from './rows';
import { ruleName } from './sigma';
import { useRuleCache } from './use-rules';

/** One rule, in the form that changes it. */
export function RulePage() {
  const { id = '' } = useParams();
  const navigate = useNavigate();
  const cache = useRuleCache();
  const [deleting, setDeleting] = useState(false);
  // Fetched when the page opens, and not again: another definition would discard what the user types.
  const rule = useQuery({ queryKey: ['detection-rules', id], queryFn: ({ signal }) => fetchRule(id, signal), staleTime: 0, refetchOnWindowFocus: false, refetchOnReconnect: false });
  const name = rule.data ? ruleName(id, rule.data) : id;
  const isMissing = rule.data === undefined && rule.error instanceof ApiError && rule.error.status === 404;
  return (
    <PageFrame
      title={name}
      about={`Rule ${id}`}
      within={{ list: 'Rules', to: '/rules', name }}
      actions={
        !isMissing && (
          <>
            <Button size="xs" variant="default" component={Link} to={alertsPath(id)}>
              Show alerts
            </Button>
            <Button size="xs" variant="default" c="red" onClick={() => setDeleting(true)}>
              Delete
            </Button>
          </>
        )
      }
    >
      {isMissing ? (
        <Missing id={id} />
      ) : (
        <Answer query={rule} what="Rule">
          {(definition) => (
            <>
              <RuleForm
                key={JSON.stringify(definition)}
                id={id}
                stored={definition}
                initial={ruleInput(definition)}
                onSaved={(id, changed) => {
                  cache.stored(id, changed);
                  notifications.show({ message: 'Rule saved. Pipelines evaluate it from their next batch on.' });
                }}
              />
              <RuleCoverage id={id} runs={definition.type === 'query'} />
            </>
          )}
        </Answer>
      )}
      {deleting && (
        <Confirm
          title="Delete rule"
          action="Delete rule"
          onConfirm={async () => {
            await deleteRule(id);
            cache.removed(id);
            await navigate('/rules');
          }}
          onClose={() => setDeleting(false)}
        >
          Pipelines stop evaluating <b>{name}</b>. Its alerts stay.
        </Confirm>
      )}
    </PageFrame>
  );
}

/** The rule does not exist: it was deleted, or it is one of a correlation. */
function Missing({ id }: { id: string }) {
  const correlation = id.includes('/') ? id.slice(0, id.indexOf('/')) : null;
  return (
    <Empty title="Rule not found">
      There is no rule with the ID {id}: it was deleted, or it has another ID.{' '}
      {correlation && (
        <>
          If it is a rule of a correlation, it is part of{' '}
          <Anchor component={Link} to={`/rules/${encodeURIComponent(correlation)}`} size="sm" underline="always">
            {correlation}
          </Anchor>
          .{' '}
        </>
      )}
      <Anchor component={Link} to={alertsPath(id)} size="sm" underline="always">
        Show its alerts
      </Anchor>
    </Empty>
  );
}
