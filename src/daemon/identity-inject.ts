import { join } from 'node:path';
import type { AgentYaml } from '../contract/config.ts';
import type { CutFile } from '../contract/hooks.ts';
import type { Identity, IdentityFile } from './identity.ts';

/** Share of a model's context window that identity files may have in the runtime of Signet, unless `identity.maxTokens` says otherwise. */
export const IDENTITY_SHARE = 0.25;
/** `identity.maxTokens` never leaves less of the window than the rest of this share: a conversation must still fit. */
const IDENTITY_SHARE_MAX = 0.75;
/** An estimate that holds for prose; bytes, because a character of some scripts is a token of its own. */
const BYTES_PER_TOKEN = 4;

/**
 * Characters of an inject that each harness hands to its model whole. Claude Code and Codex shorten the output of a hook beyond 10,000
 * characters to a preview. opencode, pi and OpenClaw pass on whatever their plugin gives them: the limit keeps a model of 32,000 tokens usable.
 */
export const HARNESS_INJECT_CHARS: Readonly<Record<string, number>> = {
  'claude-code': 9_800,
  codex: 9_800,
  opencode: 48_000,
  pi: 48_000,
  openclaw: 48_000,
};
/** For a harness nobody has looked at, in characters. */
export const INJECT_CHARS_DEFAULT = 9_800;
/** Identity files have at least this share of an inject, however much else there is to say. */
const FILES_SHARE_MIN = 0.4;
/** Heading of a section and the blank lines around it, in characters. */
const FRAME_CHARS = 7;
const HEADINGS: Readonly<Record<IdentityFile, string>> = {
  'AGENTS.md': 'Agent Instructions',
  'SOUL.md': 'Soul',
  'IDENTITY.md': 'Identity',
  'USER.md': 'About The User',
  'TOOLS.md': 'Tools',
  'MEMORY.md': 'Recent Context',
};

/** Who gets an inject, and how much of one it takes; unit: characters. */
export interface Receiver {
  readonly name: string;
  readonly injectCharsMax: number;
  /** Of all identity files together; undefined leaves them what the other sections do not use. */
  readonly filesCharsMax?: number;
}

export interface FittedFile {
  readonly file: IdentityFile;
  readonly heading: string;
  /** Whole, or its beginning with a line that says so. */
  readonly text: string;
}

export interface FittedFiles {
  readonly files: readonly FittedFile[];
  readonly truncated: CutFile[];
}

/** The model of our own runtime by its context window, else a harness by its name. `restChars`: what the other sections may have. */
export function receiverOf(
  config: Pick<AgentYaml, 'hooks' | 'identity'>,
  { harness, contextTokens }: { readonly harness: string; readonly contextTokens?: number | undefined },
  identity: Identity,
  restChars: number,
): Receiver {
  const { maxInjectChars } = config.hooks.sessionStart;
  if (contextTokens === undefined) {
    const injectCharsMax = maxInjectChars ?? HARNESS_INJECT_CHARS[harness.toLowerCase()] ?? INJECT_CHARS_DEFAULT;
    return { name: harness, injectCharsMax };
  }
  const asked = config.identity.maxTokens ?? Math.floor(contextTokens * IDENTITY_SHARE);
  const tokens = Math.min(asked, Math.floor(contextTokens * IDENTITY_SHARE_MAX));
  const filesCharsMax = Math.floor(tokens * BYTES_PER_TOKEN * charsPerByte(identity));
  const name = `the runtime of Signet, at ${tokens} of ${contextTokens} tokens`;
  return { name, injectCharsMax: filesCharsMax + restChars, filesCharsMax };
}

/**
 * The identity files as sections of an inject for one receiver. Files that fit are whole. Otherwise the short ones are, and the long ones share
 * what is left evenly; each that is cut ends with a line that says so and where the rest is.
 *
 * @param restChars  what the other sections of the inject take
 */
export function fitIdentity(
  folder: string,
  { files, paths }: Identity,
  names: readonly IdentityFile[],
  receiver: Receiver,
  restChars: number,
): FittedFiles {
  const shown = names.flatMap((file) => {
    const text = files[file];
    return text === undefined ? [] : [{ file, heading: HEADINGS[file], text, path: join(folder, paths[file]!) }];
  });
  const frames = shown.reduce((sum, { heading }) => sum + heading.length + FRAME_CHARS, 0);
  const left = Math.max(receiver.injectCharsMax - restChars, Math.floor(receiver.injectCharsMax * FILES_SHARE_MIN)) - frames;
  const charsMax = Math.min(receiver.filesCharsMax ?? left, left);
  const level = levelOf(
    shown.map(({ text }) => text.length),
    charsMax,
  );
  const truncated: CutFile[] = [];
  const fitted = shown.map(({ file, heading, text, path }) => {
    if (text.length <= level) return { file, heading, text };
    const note = (given: number) => `[${file} is cut here: ${given} of ${text.length} characters are shown. Read the rest in ${path}]`;
    const start = wholeStart(text, level - note(text.length).length - 1);
    truncated.push({ file, given: start.length, of: text.length, path });
    return { file, heading, text: `${start}\n${note(start.length)}`.trimStart() };
  });
  return { files: fitted, truncated };
}

/** The most each may have so that all together stay within `charsMax`; what is shorter leaves its part to the others. */
function levelOf(lengths: readonly number[], charsMax: number): number {
  let left = Math.max(0, charsMax);
  const sorted = [...lengths].sort((one, other) => one - other);
  for (const [index, length] of sorted.entries()) {
    const share = Math.floor(left / (sorted.length - index));
    if (length > share) return share;
    left -= length;
  }
  return Number.POSITIVE_INFINITY;
}

/** Never half of a surrogate pair. */
function wholeStart(text: string, charsMax: number): string {
  const start = text.slice(0, Math.max(0, charsMax));
  return (/[\ud800-\udbff]$/.test(start) ? start.slice(0, -1) : start).trimEnd();
}

function charsPerByte({ files }: Identity): number {
  const texts = Object.values(files);
  const chars = texts.reduce((sum, text) => sum + text.length, 0);
  const bytes = texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
  return bytes === 0 ? 1 : chars / bytes;
}
