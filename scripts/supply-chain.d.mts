export interface BundledPackage {
  readonly name: string;
  readonly version: string;
  readonly license: string;
  readonly integrity?: string;
  readonly isOptional: boolean;
  readonly path: string;
}
export const LICENCES: readonly string[];
export function bundledPackages(root: string, moduleIds: readonly string[]): BundledPackage[];
export function sbomText(root: string, packages: readonly BundledPackage[]): string;
export function thirdPartyText(root: string, packages: readonly BundledPackage[]): string;
