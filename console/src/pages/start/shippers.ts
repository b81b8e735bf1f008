/** Where events are sent, and by whom. */
export interface Target {
  /** Such as `https://firn.example:9200`. */
  origin: string;
  /** Data stream or index. */
  stream: string;
  /** An API key as clients send it; null where the server asks nobody who comes. */
  key: string | null;
}

export interface Shipper {
  id: string;
  label: string;
  /** What to do with the text. */
  where: string;
  text: (target: Target) => string;
}

/** Address, port and whether TLS is spoken, as outputs want them. */
function address(origin: string): { host: string; port: string; tls: boolean } {
  const { hostname, port, protocol } = new URL(origin);
  const tls = protocol === 'https:';
  return { host: hostname.replace(/^\[|\]$/g, ''), port: port || (tls ? '443' : '80'), tls };
}

const lines = (...parts: (string | null)[]): string => parts.filter((part) => part !== null).join('\n');

/** In single quotes of a shell. */
const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

/** What is copied to send the first events. Each is whole: nothing has to be filled in but paths of files. */
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
    where: 'Send files of one JSON object a line, plain or compressed.',
    text: ({ origin, stream, key }) => lines(`firn ingest events.ndjson.gz --url ${quoted(origin)} --data-stream ${quoted(stream)}${key ? ` --api-key ${quoted(key)}` : ''}`),
  },
  {
    id: 'filebeat',
    label: 'Filebeat',
    where: 'Put into filebeat.yml.',
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
        '# firn needs none of these',
        'setup.template.enabled: false',
        'setup.ilm.enabled: false',
      ),
  },
  {
    id: 'fluent-bit',
    label: 'Fluent Bit',
    where: 'Put into fluent-bit.conf. API keys need Fluent Bit 4.1 or later.',
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
        '    # Otherwise what was refused twice is dropped',
        '    Retry_Limit         no_limits',
        '    # Otherwise what was taken is sent again where the answer is longer than 512 KB',
        '    Buffer_Size         False',
      );
    },
  },
  {
    id: 'vector',
    label: 'Vector',
    where: 'Put into vector.yaml.',
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
        '    # Otherwise events that were refused for a while are dropped',
        '    request_retry_partial: true',
        key && '    # It asks for more than a key that may only send may ask',
        key && '    healthcheck:',
        key && '      enabled: false',
        key && '    request:',
        key && '      headers:',
        key && `        Authorization: ${JSON.stringify(`ApiKey ${key}`)}`,
      ),
  },
];

/** Filebeat wants `id:secret`, which the encoded form is the base64 of. */
function decoded(key: string): string {
  try {
    return atob(key);
  } catch {
    return key;
  }
}

/** Names of indices as the server takes them. */
export const isStreamName = (name: string): boolean => /^[^\s\\/*?"<>|,#:A-Z._+-][^\s\\/*?"<>|,#:A-Z]{0,254}$/.test(name);
