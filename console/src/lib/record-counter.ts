import type { ExportFormat } from '../api/export';

const NEWLINE = 10;
const QUOTE = 34;

/** Counts the records of a file that arrives in arbitrary chunks. */
export class RecordCounter {
  private lines = 0;
  private quoted = false;
  bytes = 0;

  constructor(private readonly format: ExportFormat) {}

  add(piece: Uint8Array): void {
    this.bytes += piece.length;
    const csv = this.format === 'csv';
    for (const byte of piece) {
      // A quoted field may contain newlines; a doubled quote closes and reopens the field.
      if (csv && byte === QUOTE) this.quoted = !this.quoted;
      else if (byte === NEWLINE && !this.quoted) this.lines += 1;
    }
  }

  /** Complete records so far, without the CSV header. */
  get records(): number {
    return this.format === 'csv' ? Math.max(0, this.lines - 1) : this.lines;
  }
}
