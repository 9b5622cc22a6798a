import { z } from 'zod';

/** An address without a login: `https://user:password@host` is refused, since addresses are shown, logged and passed on. */
export const plainUrl = (options: { readonly protocol?: RegExp } = {}) =>
  z.url(options).refine((text) => !hasLogin(text), {
    message:
      'must not hold a user or password: keep them as a secret (signet secret set) or in a variable of the environment, and send them in a header',
  });

/** Whether an address holds a user or a password; false for what is no address. */
export function hasLogin(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { username, password } = new URL(text);
  return username !== '' || password !== '';
}
