/** What looks like a secret: tokens behind "Bearer", values of things called key, token, secret or password, keys by their known beginnings. What stands before the keyword of a name is not looked at, and what follows has a bound: otherwise a long run takes quadratic time. */
const SECRETS: readonly RegExp[] = [
  /\b(bearer\s+)[\w.~+/-]{16,}=*/gi,
  /((?:api[_-]?key|token|secret|passw(?:or)?d|credential)[\w-]{0,64}["']?\s{0,32}[:=]\s{0,32}["']?)[^\s"',;]{6,}/gi,
  /\b()(?:sk|pk|rk|ghp|gho|ghs|github_pat|glpat|xox[abposr]|AKIA|ASIA)[-_]?[A-Za-z0-9_-]{16,}/g,
  /()-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)/g,
];

/** A text without what looks like a secret; raw turns stay as they are, everything that is made from them passes through here. */
export function redactSecrets(text: string): string {
  return SECRETS.reduce((rest, pattern) => rest.replace(pattern, '$1[redacted]'), text);
}
