/** Destination and credentials of the events. */
export interface Target {
  /** Such as `https://firn.example:9200`. */
  origin: string;
  /** Data stream or index. */
  stream: string;
  /** Encoded API key; null if authentication is off. */
  key: string | null;
}

export interface Shipper {
  id: string;
  label: string;
  /** Instruction for the example. */
  where: string;
  text: (target: Target) => string;
}

/** Host, port and TLS of an origin, for outputs that take them separately. */
function address(origin: string): { host: string; port: string; tls: boolean } {
  const { hostname, port, protocol } = new URL(origin);
  const tls = protocol === 'https:';
  return { host: hostname.replace(/^\[|\]$/g, ''), port: port || (tls ? '443' : '80'), tls };
}

const lines = (...parts: (string | null)[]): string => parts.filter((part) => part !== null).join('\n');

/** Quotes text for a shell. */
const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

/** Examples that send events. Each is complete except for file paths. */
export const SHIPPERS: Shipper[] = [
  {
    id: 'curl',
    label: 'curl',
    where: 'Send one event from a terminal.',
    text: ({ origin, stream, key }) =>
      lines(
        `curl -X POST ${quoted(`${origin}/${encodeURIComponent(stream)}/_doc`)} \\`,
        key && `  -H ${quoted(`Authorization: ApiKey ${key}`)} \\`,
        `  -H 'Content-Type: application/json' \\`,
        `  -d '{"@timestamp": "'"$(date -u +%Y-%m-%dT%H:%M:%SZ)"'", "message": "hello firn"}'`,
      ),
  },
  {
    id: 'firn',
    label: 'firn ingest',
    where: 'Send NDJSON files, plain or compressed.',
    text: ({ origin, stream, key }) => lines(`firn ingest events.ndjson.gz --url ${quoted(origin)} --data-stream ${quoted(stream)}${key ? ` --api-key ${quoted(key)}` : ''}`),
  },
  {
    id: 'filebeat',
    label: 'Filebeat',
    where: 'Add to filebeat.yml.',
    text: ({ origin, stream, key }) =>
      lines(
        'filebeat.inputs:',
        '  - type: filestream',
        '    id: my-logs',
        '    paths: ["/var/log/*.log"]',
        '',
        'output.elasticsearch:',
        `  hosts: [${JSON.stringify(origin)}]`,
        key && `  api_key: ${JSON.stringify(decoded(key))}`,
        `  index: ${JSON.stringify(stream)}`,
        '  allow_older_versions: true',
        '',
        '# Not needed with firn',
        'setup.template.enabled: false',
        'setup.ilm.enabled: false',
      ),
  },
  {
    id: 'fluent-bit',
    label: 'Fluent Bit',
    where: 'Add to fluent-bit.conf. API keys need Fluent Bit 4.1 or later.',
    text: ({ origin, stream, key }) => {
      const { host, port, tls } = address(origin);
      return lines(
        '[OUTPUT]',
        '    Name                es',
        '    Match               *',
        `    Host                ${host}`,
        `    Port                ${port}`,
        `    tls                 ${tls ? 'On' : 'Off'}`,
        key && `    HTTP_API_Key        ${key}`,
        `    Index               ${stream}`,
        '    Time_Key            @timestamp',
        '    Suppress_Type_Name  On',
        '    Write_Operation     create',
        '    # Without this, events are dropped after two refusals',
        '    Retry_Limit         no_limits',
        '    # Without this, accepted events are sent again if the response exceeds 512 KB',
        '    Buffer_Size         False',
      );
    },
  },
  {
    id: 'vector',
    label: 'Vector',
    where: 'Add to vector.yaml.',
    text: ({ origin, stream, key }) =>
      lines(
        'sources:',
        '  my_logs:',
        '    type: file',
        '    include: ["/var/log/*.log"]',
        '',
        'transforms:',
        '  my_events:',
        '    type: remap',
        '    inputs: ["my_logs"]',
        '    source: ."@timestamp" = del(.timestamp)',
        '',
        'sinks:',
        '  firn:',
        '    type: elasticsearch',
        '    inputs: ["my_events"]',
        `    endpoints: [${JSON.stringify(origin)}]`,
        '    api_version: v8',
        '    mode: bulk',
        '    bulk:',
        '      action: create',
        `      index: ${JSON.stringify(stream)}`,
        '    # Without this, events that were refused temporarily are dropped',
        '    request_retry_partial: true',
        key && '    # It needs more privileges than a write-only key has',
        key && '    healthcheck:',
        key && '      enabled: false',
        key && '    request:',
        key && '      headers:',
        key && `        Authorization: ${JSON.stringify(`ApiKey ${key}`)}`,
      ),
  },
];

/** Decodes a key to `id:secret`, the format that Filebeat expects. */
function decoded(key: string): string {
  try {
    return atob(key);
  } catch {
    return key;
  }
}

/** Returns whether the server accepts a name as an index name. */
export const isStreamName = (name: string): boolean => /^[^\s\\/*?"<>|,#:A-Z._+-][^\s\\/*?"<>|,#:A-Z]{0,254}$/.test(name);
