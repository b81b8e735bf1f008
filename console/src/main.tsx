import '@mantine/core/styles.css';
import '@mantine/notifications/styles.css';
import './app/global.css';
// Dialogs are loaded when they are opened: what opened them is known by then.
import './components/return-focus';
import { setNonce } from 'get-nonce';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { App } from './app/App';
import { styleNonce } from './app/nonce';

// The lock that keeps the page from scrolling behind a dialog makes a style element of its own.
setNonce(styleNonce());

const root = document.getElementById('root');
if (!root) throw new Error('index.html has no #root');
createRoot(root).render(
  <StrictMode>
    <App nonce={styleNonce()} />
  </StrictMode>,
);
