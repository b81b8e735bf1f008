import { notifications } from '@mantine/notifications';
import { afterEach, expect, it, vi } from 'vitest';
import { copyText } from './copy';

afterEach(() => vi.unstubAllGlobals());

it('shows an error instead of throwing if there is no clipboard', async () => {
  const show = vi.spyOn(notifications, 'show').mockReturnValue('');
  vi.stubGlobal('navigator', {});
  expect(await copyText('a', 'Value')).toBe(false);
  expect(show.mock.lastCall?.[0]).toMatchObject({ color: 'red', message: expect.stringContaining('plain http') as string });
  vi.stubGlobal('navigator', { clipboard: { writeText: () => Promise.resolve() } });
  expect(await copyText('a', 'Value')).toBe(true);
  expect(show.mock.lastCall?.[0]).toMatchObject({ message: 'Value copied' });
});
