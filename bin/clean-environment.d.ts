export function restartWithoutKeys(node: string, args: readonly string[]): void;
export function takeKeys(): boolean;
