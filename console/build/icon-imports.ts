import type { Plugin } from 'vite';

const FROM_ALL = /import \{([^}]*)\} from '@tabler\/icons-react';/g;

/** Reads `import { IconA } from '@tabler/icons-react'` as an import of that icon's own file. */
export function directIconImports(code: string): string {
  return code.replace(FROM_ALL, (_, names: string) =>
    names
      .split(',')
      .map((name) => name.trim())
      .filter((name) => name !== '' && !name.startsWith('type '))
      .map((name) => `import ${name} from '@tabler/icons-react/dist/esm/icons/${name}.mjs';`)
      .join(' '),
  );
}

/** The package's index names 6,000 files; to read them all for a dozen icons takes a build minutes. */
export function iconImports(): Plugin {
  return {
    name: 'firn-icon-imports',
    enforce: 'pre',
    transform: (code, id) => (/\/console\/src\/.*\.tsx?$/.test(id) ? { code: directIconImports(code), map: null } : null),
  };
}
