import { request } from './request';

/** Definition of a channel that delivers alerts. */
export interface ChannelDefinition {
  type: 'email' | 'webhook' | 'syslog' | 'kafka';
  tenant?: string | null;
}

export interface ChannelStats {
  pending: number;
  delivered: number;
  failed: number;
  last_error: string | null;
  next_attempt: string | null;
}

export interface Channel {
  id: string;
  definition: ChannelDefinition;
  /** Undefined: the server has not started it yet. */
  stats: ChannelStats | undefined;
}

/** Lists all channels with their state, by id. */
export const listChannels = async (signal?: AbortSignal): Promise<Channel[]> => {
  const options = signal ? { signal } : {};
  const [definitions, stats] = await Promise.all([
    request<Record<string, ChannelDefinition>>('/_firn/channels', options),
    request<Record<string, ChannelStats>>('/_firn/channels/_stats', options),
  ]);
  return Object.entries(definitions).map(([id, definition]) => ({ id, definition, stats: stats[id] }));
};

/** Delivers a test message. Fails with the reason if the channel does not take it. */
export const testChannel = (id: string) => request<{ delivered: boolean }>(`/_firn/channels/${encodeURIComponent(id)}/_test`, { method: 'POST', body: {} });
