import { notifications } from '@mantine/notifications';
import { afterEach, expect, it, vi } from 'vitest';
import { copyText } from './copy';

afterEach(() => vi.unstubAllGlobals());

it('says that there is no clipboard instead of throwing', async () => {
  const show = vi.spyOn(notifications, 'show').mockReturnValue('');
  vi.stubGlobal('navigator', {});
  expect(await copyText('a', 'The value')).toBe(false);
  expect(show.mock.lastCall?.[0]).toMatchObject({ color: 'red', message: expect.stringContaining('plain http') as string });
  vi.stubGlobal('navigator', { clipboard: { writeText: () => Promise.resolve() } });
  expect(await copyText('a', 'The value')).toBe(true);
  expect(show.mock.lastCall?.[0]).toMatchObject({ message: 'The value is copied' });
});
