import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

// Plain JavaScript, because the build uses it.

/** The lockfile says where each package stands: `node_modules/a/node_modules/b`. */
const PACKAGE_FOLDER = /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//;
const LICENCE_FILE = /^(?:licen[cs]e|copying|notice)(?:[.-].*)?$/i;
/** Licences that ask for no more than to be named together with their text. */
export const LICENCES = ['MIT', 'ISC', 'Apache-2.0', 'BSD-2-Clause', 'BSD-3-Clause', '0BSD', 'MIT OR Apache-2.0', 'Unlicense'];

/**
 * Packages whose code stands in the bundle, and the Node that npm may install beside it.
 *
 * @param moduleIds  absolute paths of the bundled modules
 * @returns          sorted by name and version
 */
export function bundledPackages(root, moduleIds) {
  const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'));
  const folders = new Set(moduleIds.flatMap((id) => PACKAGE_FOLDER.exec(id.replaceAll('\\', '/').replace(`${root}/`, ''))?.[1] ?? []));
  const nodes = Object.keys(packages).filter((path) => /^node_modules\/node-[a-z]+-[a-z0-9]+$/.test(path));
  return (
    [...folders, ...nodes]
      .map((path) => {
        const entry = packages[path];
        if (!entry) throw new Error(`${path} is in the bundle and not in package-lock.json: run npm install`);
        const name = path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length);
        const { version, license = 'unknown', integrity, optional = false } = entry;
        return { name, version, license, integrity, isOptional: optional && nodes.includes(path), path };
      })
      .sort((a, b) => compare(a.name, b.name) || compare(a.version, b.version) || compare(a.path, b.path))
      // The same version may stand in two places.
      .filter((item, index, all) => item.name !== all[index - 1]?.name || item.version !== all[index - 1]?.version)
  );
}

/**
 * Software bill of materials of dist/; the same for the same lockfile and sources: it holds no time and no random number.
 *
 * @source CycloneDX 1.6
 */
export function sbomText(root, packages) {
  const { name, version, license } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const components = packages.map((item) => ({
    type: 'library',
    'bom-ref': purl(item),
    name: item.name,
    version: item.version,
    scope: item.isOptional ? 'optional' : 'required',
    ...(item.integrity ? { hashes: [hashOf(item.integrity)] } : {}),
    licenses: [/ /.test(item.license) ? { expression: item.license } : { license: { id: item.license } }],
    purl: purl(item),
  }));
  const main = { type: 'application', 'bom-ref': purl({ name, version }), name, version, licenses: [{ license: { id: license } }] };
  const dependencies = [{ ref: main['bom-ref'], dependsOn: components.map((component) => component['bom-ref']) }];
  return `${JSON.stringify({ bomFormat: 'CycloneDX', specVersion: '1.6', version: 1, metadata: { component: main }, components, dependencies }, null, 2)}\n`;
}

/** THIRD-PARTY.md: a table of the packages, then each text of a licence once, with the packages that have it. */
export function thirdPartyText(root, packages) {
  const texts = new Map();
  // A Node that is installed beside dist/ brings its own file.
  for (const item of packages.filter(({ isOptional }) => !isOptional)) {
    const text = licenceText(join(root, item.path)) ?? `(The package has no file of its licence, ${item.license}.)`;
    texts.set(text, [...(texts.get(text) ?? []), `${item.name} ${item.version}`]);
  }
  const rows = packages.map(
    ({ name, version, license, isOptional }) =>
      `| ${name} | ${version} | ${license} | ${isOptional ? 'installed beside it, by choice' : 'in dist/'} |`,
  );
  const sections = [...texts].map(([text, names]) => `## ${names.join(', ')}\n\n\`\`\`text\n${text.replaceAll('```', "'''")}\n\`\`\`\n`);
  const head = `# Third-party software\n\nThe packages whose code is in \`dist/\`, with their licences. Made by \`npm run third-party\` from the bundle and the lockfile; do not edit.\n`;
  return `${head}\n| Package | Version | Licence | Where |\n|---|---|---|---|\n${rows.join('\n')}\n\n${sections.join('\n')}`;
}

function licenceText(folder) {
  if (!existsSync(folder)) return undefined;
  const files = readdirSync(folder)
    .filter((name) => LICENCE_FILE.test(name))
    .sort();
  if (files.length === 0) return undefined;
  return files.map((name) => readFileSync(join(folder, name), 'utf8').replaceAll('\r\n', '\n').trim()).join('\n\n');
}

function purl({ name, version }) {
  return `pkg:npm/${name.replace('@', '%40')}@${version}`;
}

/** `sha512-<base64>` as the lockfile has it. */
function hashOf(integrity) {
  const [algorithm, digest] = integrity.split(' ')[0].split('-');
  return { alg: algorithm.replace('sha', 'SHA-'), content: Buffer.from(digest, 'base64').toString('hex') };
}

function compare(a, b) {
  return a < b ? -1 : a > b ? 1 : 0;
}
