import { notifications } from '@mantine/notifications';

/** Copies text and shows a notification. Fails over plain http, where browsers give pages no clipboard. */
export async function copyText(text: string, what: string): Promise<boolean> {
  try {
    // The type says that it is always defined.
    const clipboard = navigator.clipboard as Clipboard | undefined;
    if (!clipboard) throw new Error('Browsers give pages no clipboard over plain http; use https.');
    await clipboard.writeText(text);
    notifications.show({ message: `${what} copied`, autoClose: 1500 });
    return true;
  } catch (error) {
    notifications.show({ color: 'red', title: 'Copy failed', message: (error as Error).message });
    return false;
  }
}
