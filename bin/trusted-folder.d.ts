export function compileCacheFolder(env: Readonly<Record<string, string | undefined>>, home: string): string | undefined;
export function isTrustedAs(path: string, ownCode: string): boolean;
