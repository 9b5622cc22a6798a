/** Fields that hold secrets wherever they turn up. */
export const SECRET_FIELDS = ['apiKey', 'token', 'authorization', 'value', 'secret', 'password', 'headers', 'env'];
export const REDACTED = '[redacted]';

/** Bounds of what one entry may hold. */
const TEXT_CHARS_MAX = 1_000;
const ITEMS_MAX = 40;
const DEPTH_MAX = 4;

const SECRET_NAMES = new Set(
  [...SECRET_FIELDS, 'api_key', 'apikey', 'access_token', 'cookie', 'set-cookie', 'x-api-key'].map((name) => name.toLowerCase()),
);
/** Keys and tokens as providers write them, wherever they stand in a text. */
const SECRET_TEXT =
  /\b(?:sk|pk|rk|ghp|gho|ghs|xox[abp])[-_][A-Za-z0-9_-]{16,}|\bsignet_[a-z0-9]{5,12}_[A-Za-z0-9_-]{43}|\bBearer\s+[A-Za-z0-9._~+/-]{8,}=*/g;

/** `https://user:password@host` */
const URL_LOGIN = /\/\/[^/@\s"'\\<>]{1,512}@/g;
/** `?api_key=…`, and the like behind `&`, `;` and `#`. */
const URL_KEY =
  /([?&;#](?:[\w.-]{0,64}(?:api[-_]?key|access[-_]?key|token|secret|passw(?:or)?d|signature|credentials?)|key|sig|auth|code|pwd)=)[^&;#\s"'\\<>]+/gi;
/** A part of a path that is as long as keys are: some services have theirs in the path. */
const URL_PATH_KEY =
  /(\bhttps?:\/\/[^\s"'\\<>?#/]{1,512}(?:\/[^\s"'\\<>?#/]{0,19}){0,16}\/)(?=[\w-]{0,64}\d)(?=[\w-]{0,64}[A-Za-z])[\w-]{20,}/g;

/** The text without keys and tokens, those in addresses included. Quotes and escapes stay whole, so that JSON stays JSON. */
export function redactKeys(text: string): string {
  return text
    .replace(SECRET_TEXT, REDACTED)
    .replace(URL_LOGIN, `//${REDACTED}@`)
    .replace(URL_KEY, `$1${REDACTED}`)
    .replace(URL_PATH_KEY, `$1${REDACTED}`);
}

/** The text without keys and tokens, at most TEXT_CHARS_MAX characters long. */
export function redactText(text: string): string {
  const plain = redactKeys(text);
  return plain.length <= TEXT_CHARS_MAX ? plain : `${plain.slice(0, TEXT_CHARS_MAX)}… (${plain.length} characters)`;
}

/** A copy that can be shown: secrets taken out, long texts cut, deep and wide things bounded. Never throws; circles end at the depth. */
export function redactValue(value: unknown, depth = 0): unknown {
  if (typeof value === 'string') return redactText(value);
  if (typeof value === 'bigint') return String(value);
  if (typeof value === 'function' || typeof value === 'symbol') return undefined;
  if (typeof value !== 'object' || value === null) return value;
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? null : value.toISOString();
  if (value instanceof Error) return { name: value.name, message: redactText(value.message) };
  if (depth >= DEPTH_MAX) return Array.isArray(value) ? `[${value.length} items]` : '{…}';
  if (Array.isArray(value)) return value.slice(0, ITEMS_MAX).map((item) => redactValue(item, depth + 1));
  const entries = Object.entries(value).slice(0, ITEMS_MAX);
  return Object.fromEntries(
    entries.map(([name, inner]) => [name, SECRET_NAMES.has(name.toLowerCase()) ? REDACTED : redactValue(inner, depth + 1)]),
  );
}
