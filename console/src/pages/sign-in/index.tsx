import { Alert, Button, Center, PasswordInput, Stack, Text, TextInput, Title } from '@mantine/core';
import { type FormEvent, useState } from 'react';
import { ApiError, errorText } from '../../api/errors';
import { type Session, signIn } from '../../api/session';

interface Props {
  onSignedIn: (session: Session) => void;
  /** Rendered in a dialog over a page whose session has expired. */
  expired?: boolean;
  username?: string | undefined;
}

/** The server's text for a 401 names the request, which means nothing to users. */
const signInError = (error: unknown): string => (error instanceof ApiError && error.status === 401 ? 'Wrong username or password' : errorText(error));

export default function SignIn({ onSignedIn, expired = false, username = '' }: Props) {
  const [name, setName] = useState(username);
  const [password, setPassword] = useState('');
  const [error, setError] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);

  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      onSignedIn(await signIn(name, password));
    } catch (failure) {
      setError(signInError(failure));
      setBusy(false);
    }
  };

  const form = (
    <form onSubmit={(event) => void submit(event)}>
      <Stack w={320} maw="100%">
        <Title order={1} size="h3">
          {expired ? 'Sign in again' : 'Sign in to firn'}
        </Title>
        {expired && <Text size="sm">Your session has expired. Sign in to continue where you left off.</Text>}
        <TextInput label="Username" autoComplete="username" required autoFocus={!name} value={name} onChange={(event) => setName(event.currentTarget.value)} />
        <PasswordInput label="Password" autoComplete="current-password" required autoFocus={!!name} data-autofocus={username !== '' || undefined} value={password} onChange={(event) => setPassword(event.currentTarget.value)} />
        {error && (
          <Alert color="red" role="alert">
            {error}
          </Alert>
        )}
        <Button type="submit" loading={busy}>
          Sign in
        </Button>
      </Stack>
    </form>
  );
  return expired ? form : <Center mih="80vh">{form}</Center>;
}
