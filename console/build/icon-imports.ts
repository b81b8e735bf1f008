import type { Plugin } from 'vite';

const FROM_ALL = /import \{([^}]*)\} from '@tabler\/icons-react';/g;

/** Rewrites `import { IconA } from '@tabler/icons-react'` to an import of the icon's file. */
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

/** Imports each icon from its file: the package index names 6,000 files, which would add minutes to a build. */
export function iconImports(): Plugin {
  return {
    name: 'firn-icon-imports',
    enforce: 'pre',
    transform: (code, id) => (/\/console\/src\/.*\.tsx?$/.test(id) ? { code: directIconImports(code), map: null } : null),
  };
}
