import { createHash } from 'node:crypto';

/** What two writings of the same memory have in common: case, white space and final punctuation do not matter, everything else does. */
export function canonicalText(content: string): string {
  const plain = content.normalize('NFC').toLowerCase().replace(/\s+/gu, ' ').trim();
  // A memory made of punctuation alone is itself.
  return plain.replace(/[\s.,!?;:…]+$/u, '') || plain;
}

/** SHA-256 of the canonical text, in hex. */
export function contentHash(content: string): string {
  return createHash('sha256').update(canonicalText(content)).digest('hex');
}
