/** Is it a name or address of this machine alone? IPv6 with brackets or without. */
export function isLoopbackName(name: string): boolean {
  return /^(?:localhost|127(?:\.\d{1,3}){3}|\[?::1\]?)$/i.test(name);
}
