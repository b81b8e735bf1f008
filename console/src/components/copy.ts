import { notifications } from '@mantine/notifications';

/** Copies text, and says so, or why not: over plain http browsers have no clipboard for pages. */
export async function copyText(text: string, what: string): Promise<boolean> {
  try {
    // Typed as always there.
    const clipboard = navigator.clipboard as Clipboard | undefined;
    if (!clipboard) throw new Error('over plain http it gives pages no clipboard');
    await clipboard.writeText(text);
    notifications.show({ message: `${what} is copied`, autoClose: 1500 });
    return true;
  } catch (error) {
    notifications.show({ color: 'red', title: 'The browser does not let it be copied', message: (error as Error).message });
    return false;
  }
}
