import { expect, it } from 'vitest';
import { directIconImports } from './icon-imports';

it('imports each icon from its own file, and leaves types and other packages alone', () => {
  expect(directIconImports("import { IconA,\n  type Icon, IconB } from '@tabler/icons-react';\n")).toBe(
    "import IconA from '@tabler/icons-react/dist/esm/icons/IconA.mjs'; import IconB from '@tabler/icons-react/dist/esm/icons/IconB.mjs';\n",
  );
  for (const code of ["import type { Icon } from '@tabler/icons-react';", "import { x } from 'y';"]) {
    expect(directIconImports(code)).toBe(code);
  }
});
