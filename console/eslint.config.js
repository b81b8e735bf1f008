import js from '@eslint/js';
import jsxA11y from 'eslint-plugin-jsx-a11y';
import reactHooks from 'eslint-plugin-react-hooks';
import tseslint from 'typescript-eslint';

export default tseslint.config(
  { ignores: ['dist', 'node_modules', 'artifacts'] },
  js.configs.recommended,
  ...tseslint.configs.recommended,
  jsxA11y.flatConfigs.recommended,
  {
    plugins: { 'react-hooks': reactHooks },
    rules: {
      'react-hooks/rules-of-hooks': 'error',
      'react-hooks/exhaustive-deps': 'error',
      // Events come from outside: their content is always text.
      'no-restricted-syntax': [
        'error',
        { selector: 'JSXAttribute[name.name="dangerouslySetInnerHTML"]', message: 'events are text, never HTML' },
        { selector: 'AssignmentExpression[left.property.name=/^(inner|outer)HTML$/]', message: 'events are text, never HTML' },
      ],
      'no-eval': 'error',
      // Dialogs move the focus to their first field, as the ARIA pattern for dialogs asks.
      'jsx-a11y/no-autofocus': 'off',
      eqeqeq: 'error',
    },
  },
  // Node scripts: builds and tools.
  {
    // Some functions of these also run in the page.
    files: ['e2e/**/*.mjs'],
    languageOptions: {
      globals: Object.fromEntries(
        ['Buffer', 'fetch', 'setTimeout', 'URLSearchParams', 'window', 'document', 'performance', 'MutationObserver', 'requestAnimationFrame'].map((name) => [name, 'readonly']),
      ),
    },
  },
  { files: ['**/*.mjs', '*.js'], languageOptions: { globals: { process: 'readonly', console: 'readonly' } } },
);
