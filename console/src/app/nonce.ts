/** Returns the nonce that the Content-Security-Policy of this page allows style elements with. */
export function styleNonce(): string {
  return document.querySelector<HTMLMetaElement>('meta[property="csp-nonce"]')?.nonce ?? '';
}
