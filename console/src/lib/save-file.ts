/** Has the browser save a file. */
export function saveFile(file: Blob, filename: string): void {
  const url = URL.createObjectURL(file);
  const link = document.createElement('a');
  link.href = url;
  link.download = filename;
  link.click();
  // By then the browser has copied it.
  window.setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
