import { request } from './request';

/** Row of `_cat/indices`. Every cell is text; cells that a closed index lacks are null. */
export interface CatIndex {
  index: string;
  health: string;
  status: string;
  pri: string;
  'docs.count': string | null;
  'store.size': string | null;
  'dataset.size': string | null;
  'creation.date': string;
  tier: string | null;
}

/** Row of `_cat/shards`. */
export interface CatShard {
  index: string;
  shard: string;
  prirep: string;
  state: string;
  docs: string | null;
  store: string | null;
  dataset: string | null;
  node: string | null;
  tier: string | null;
  'tier.target': string | null;
  'segments.count': string | null;
  'unassigned.reason': string | null;
  'unassigned.details': string | null;
}

/** Item of `GET /_data_stream`. */
export interface DataStream {
  name: string;
  indices: { index_name: string; ilm_policy?: string }[];
  generation: number;
  status: string;
  template?: string;
  ilm_policy?: string;
  hidden: boolean;
}

/** Item of `_nodes/stats/fs`: data folder on a device, with its tier. */
export interface DataPath {
  path: string;
  tier: string;
  total_in_bytes: number;
  available_in_bytes: number;
  shards: number;
  shards_in_bytes: number;
  /** Reason why writes to this folder are blocked. */
  write_block: string | null;
}

interface NodesFs {
  nodes: Record<string, { name: string; fs: { data: DataPath[] } }>;
}

const INDEX_COLUMNS = 'index,health,status,pri,docs.count,store.size,dataset.size,creation.date,tier';
const SHARD_COLUMNS = 'index,shard,prirep,state,docs,store,dataset,node,tier,tier.target,segments.count,unassigned.reason,unassigned.details';

/** Lists all indices, including hidden ones: backing indices of data streams are hidden. */
export const listIndices = (signal?: AbortSignal) =>
  request<CatIndex[]>('/_cat/indices', { query: { format: 'json', bytes: 'b', h: INDEX_COLUMNS, expand_wildcards: 'all' }, ...(signal && { signal }) });

export const listShards = (index: string, signal?: AbortSignal) =>
  request<CatShard[]>(`/_cat/shards/${encodeURIComponent(index)}`, { query: { format: 'json', bytes: 'b', h: SHARD_COLUMNS }, ...(signal && { signal }) });

export const listDataStreams = async (signal?: AbortSignal): Promise<DataStream[]> =>
  (await request<{ data_streams: DataStream[] }>('/_data_stream', { query: { expand_wildcards: 'all' }, ...(signal && { signal }) })).data_streams;

export const fetchSettings = async (index: string, signal?: AbortSignal): Promise<Record<string, string>> => {
  const answer = await request<Record<string, { settings: Record<string, string> }>>(`/${encodeURIComponent(index)}/_settings`, {
    query: { flat_settings: true },
    ...(signal && { signal }),
  });
  return Object.values(answer)[0]?.settings ?? {};
};

export const listDataPaths = async (signal?: AbortSignal): Promise<DataPath[]> => {
  const answer = await request<NodesFs>('/_nodes/stats/fs', { ...(signal && { signal }) });
  return Object.values(answer.nodes).flatMap((node) => node.fs.data);
};
