import { Modal, type ModalProps } from '@mantine/core';
import { useReturnFocus } from './return-focus';

type Props = Omit<ModalProps, 'opened' | 'returnFocus'>;

/** A dialog, open as long as it is on the page. */
export function Dialog({ children, ...others }: Props) {
  useReturnFocus();
  return (
    <Modal {...others} opened returnFocus={false}>
      {children}
    </Modal>
  );
}
