import { createTheme, type CSSVariablesResolver, type MantineColorsTuple } from '@mantine/core';

/** Brand blue. White text on shade 8 has a contrast of 5.6 : 1. */
const glacier: MantineColorsTuple = [
  '#e9f6fb', '#cfe9f4', '#a3d3e6', '#74bcd9', '#4fa9ce', '#379ec8', '#2798c6', '#1a84b0', '#0b6e99', '#00597d',
];

export const theme = createTheme({
  primaryColor: 'glacier',
  primaryShade: 8,
  colors: { glacier },
  autoContrast: true,
  cursorType: 'pointer',
  defaultRadius: 'sm',
  // System fonts: nothing to load, no layout shift.
  fontFamily: 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Helvetica Neue", Arial, sans-serif, "Noto Color Emoji"',
  fontFamilyMonospace: 'ui-monospace, SFMono-Regular, "Cascadia Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace',
  components: {
    Tooltip: { defaultProps: { openDelay: 300, withArrow: true } },
    Modal: { defaultProps: { closeButtonProps: { 'aria-label': 'Close' }, transitionProps: { duration: 100 } } },
    Notification: { defaultProps: { closeButtonProps: { 'aria-label': 'Close' } } },
    Popover: { defaultProps: { transitionProps: { duration: 80 } } },
    // Menus contain only items, so the first item takes the focus.
    Menu: { defaultProps: { transitionProps: { duration: 80 }, withInitialFocusPlaceholder: false } },
  },
});

const HUES = ['glacier', 'blue', 'gray', 'red', 'orange', 'yellow', 'green', 'teal', 'grape'];

/** Replaces Mantine's dimmed text colors, whose contrast is below 4.5 : 1, and defines surface colors. */
export const cssVariables: CSSVariablesResolver = (made) => ({
  variables: {},
  light: {
    '--mantine-color-text': '#1b2126',
    '--mantine-color-dimmed': '#56606a',
    '--mantine-color-placeholder': '#6a737c',
    '--mantine-color-error': '#c02525',
    '--mantine-color-anchor': made.colors['glacier']?.[8] ?? '#0b6e99',
    '--firn-surface': '#ffffff',
    '--firn-surface-2': '#f6f8f9',
    '--firn-line': '#dce1e5',
    '--firn-hover': '#eef4f7',
    '--firn-mark': '#ffe9a8',
    '--firn-old': '#646d76',
    ...Object.fromEntries(HUES.map((hue) => [`--mantine-color-${hue}-light-color`, darkText[hue] ?? '#1b2126'])),
  },
  dark: {
    '--mantine-color-body': '#15191d',
    '--mantine-color-text': '#d7dde2',
    '--mantine-color-dimmed': '#9aa5af',
    '--mantine-color-placeholder': '#8b96a0',
    '--mantine-color-error': '#ff8787',
    '--mantine-color-anchor': made.colors['glacier']?.[3] ?? '#74bcd9',
    '--mantine-color-default': '#1f252a',
    '--mantine-color-default-hover': '#2a3238',
    '--mantine-color-default-border': '#3a444c',
    '--firn-surface': '#1b2025',
    '--firn-surface-2': '#15191d',
    '--firn-line': '#313a41',
    '--firn-hover': '#252c32',
    '--firn-mark': '#6b5514',
    '--firn-old': '#929da7',
    ...Object.fromEntries(HUES.map((hue) => [`--mantine-color-${hue}-light-color`, made.colors[hue]?.[3] ?? '#d7dde2'])),
  },
});

/** Text colors on a tint of the same hue, with a contrast of at least 4.5 : 1. */
const darkText: Record<string, string> = {
  glacier: '#00597d',
  blue: '#0b4f94',
  gray: '#3b444c',
  red: '#a51d1d',
  orange: '#8f3b00',
  yellow: '#6f4e00',
  green: '#1c6630',
  teal: '#04624a',
  grape: '#7b2a8f',
};
