import '@mantine/core/styles.css';
import '@mantine/notifications/styles.css';
import './app/global.css';
// Loaded first, because dialogs load on demand: their opener must be recorded by then.
import './components/return-focus';
import { setNonce } from 'get-nonce';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { App } from './app/App';
import { styleNonce } from './app/nonce';

// The scroll lock behind dialogs creates a style element, which needs the nonce.
setNonce(styleNonce());

const root = document.getElementById('root');
if (!root) throw new Error('index.html has no #root');
createRoot(root).render(
  <StrictMode>
    <App nonce={styleNonce()} />
  </StrictMode>,
);
