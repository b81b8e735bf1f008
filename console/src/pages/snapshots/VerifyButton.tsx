import { Button } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useMutation } from '@tanstack/react-query';
import { verifyRepository } from '../../api/repositories';
import { Dialog } from '../../components/Dialog';
import { Failed } from '../../components/Failed';

/** Button that verifies a repository: each node writes an object and reads it back. */
export function VerifyButton({ name, size = 'compact-xs' }: { name: string; size?: string }) {
  const { mutate, isPending, error, reset } = useMutation({
    mutationFn: () => verifyRepository(name),
    onSuccess: ({ nodes }) => {
      const names = Object.values(nodes).map((node) => node.name);
      notifications.show({ color: 'green', message: `${name} is readable and writable from ${names.join(', ')}.` });
    },
  });
  return (
    <>
      <Button size={size} variant="default" loading={isPending} onClick={() => mutate()} aria-label={`Verify repository ${name}`}>
        Verify
      </Button>
      {error !== null && (
        <Dialog onClose={reset} title={`Repository ${name} is not usable`} centered size="lg">
          <Failed error={error} title="Verification failed" />
        </Dialog>
      )}
    </>
  );
}
