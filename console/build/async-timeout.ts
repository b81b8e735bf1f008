/** Lets tests of pages wait longer than a second for an element: machines that run tests are busy. */
if (typeof document !== 'undefined') {
  const { configure } = await import('@testing-library/react');
  configure({ asyncUtilTimeout: 15_000 });
}

export {};
