/** Groups of actions. */
export type TaskKind = 'searches' | 'writes' | 'snapshots' | 'other';

export const KINDS: { value: TaskKind; label: string }[] = [
  { value: 'searches', label: 'Searches' },
  { value: 'writes', label: 'Writes' },
  { value: 'snapshots', label: 'Snapshots' },
  { value: 'other', label: 'Other' },
];

export function kindOf(action: string): TaskKind {
  if (action.startsWith('indices:data/read')) return 'searches';
  if (action.startsWith('indices:data/write')) return 'writes';
  if (action.includes('/snapshot/') || action.includes('/repository/')) return 'snapshots';
  return 'other';
}
