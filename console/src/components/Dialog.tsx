import { Modal, type ModalProps } from '@mantine/core';
import { useReturnFocus } from './return-focus';

type Props = Omit<ModalProps, 'opened' | 'returnFocus'>;

/** Modal dialog, open as long as it is mounted. */
export function Dialog({ children, ...others }: Props) {
  useReturnFocus();
  return (
    <Modal {...others} opened returnFocus={false}>
      {children}
    </Modal>
  );
}
