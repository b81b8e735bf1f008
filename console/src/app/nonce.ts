/** The nonce that the Content-Security-Policy of this very page allows style elements by. */
export function styleNonce(): string {
  return document.querySelector<HTMLMetaElement>('meta[property="csp-nonce"]')?.nonce ?? '';
}
