import { expect, test } from 'vitest';
import { daemonOperations } from '../../src/contract/daemon.ts';
import { runtimeOperations } from '../../src/contract/runtime.ts';
import type { Operations } from '../../src/core/operation-call.ts';
import { openapiDocument } from '../../src/http/openapi.ts';
import { noteOperations, startNotes } from '../helpers/notes-app.ts';

type Json = { [key: string]: Json } & { $ref?: string };

const TABLES: [string, Operations][] = [
  ['daemon', daemonOperations],
  ['runtime', runtimeOperations],
  ['notes', noteOperations],
];

function references(value: unknown, found: string[] = []): string[] {
  if (typeof value !== 'object' || value === null) return found;
  for (const [key, inner] of Object.entries(value)) {
    if (key === '$ref' && typeof inner === 'string') found.push(inner);
    else references(inner, found);
  }
  return found;
}

test.each(TABLES)('the document of the %s is whole: references resolve, path fields are declared, ids are unique', (_name, table) => {
  const document = JSON.parse(JSON.stringify(openapiDocument(table, { title: 'T', version: '1.2.3' }))) as Json;
  expect(document).toMatchObject({ openapi: '3.1.0', info: { title: 'T', version: '1.2.3' } });
  for (const reference of references(document)) {
    const target = reference
      .slice(2)
      .split('/')
      .reduce<Json | undefined>((at, part) => at?.[part], document);
    expect(target, reference).toBeTypeOf('object');
  }
  const ids: unknown[] = [];
  for (const [path, item] of Object.entries(document.paths!)) {
    for (const [method, operation] of Object.entries(item) as [string, Json][]) {
      ids.push(operation.operationId);
      const parameters = (operation.parameters ?? []) as unknown as { name: string; in: string; required: boolean }[];
      const inPath = parameters.filter((parameter) => parameter.in === 'path');
      const named = [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1]);
      expect(inPath.map((parameter) => parameter.name).sort(), `${method} ${path}`).toEqual(named.sort());
      expect(inPath.every((parameter) => parameter.required)).toBe(true);
      expect(new Set(parameters.map((parameter) => `${parameter.in} ${parameter.name}`)).size).toBe(parameters.length);
      expect(path).not.toContain(':');
      expect(Object.keys(operation.responses!).some((status) => /^[12]\d\d$/.test(status))).toBe(true);
      expect(operation.responses!['500']).toMatchObject({ content: { 'application/problem+json': {} } });
    }
  }
  expect(new Set(ids).size).toBe(ids.length);
  expect(ids.length).toBe(Object.keys(table).length);
});

test('fields stand where a client sends them', () => {
  const document = JSON.parse(JSON.stringify(openapiDocument(noteOperations, { title: 'T', version: '1' }))) as Json;
  const add = document.paths!['/notes/{shelf}']!.post!;
  expect(add.parameters).toMatchObject([
    { name: 'shelf', in: 'path', required: true, schema: { type: 'string' } },
    { name: 'dry', in: 'query', required: false },
  ]);
  const body = (add.requestBody!.content!['application/json']! as Json).schema!;
  expect(Object.keys(body.properties!)).toEqual(['content', 'stars', 'kind', 'labels', 'dry']);
  expect(body.required).toEqual(['content']);
  expect(add.responses!['409']!.description).toContain('`id_conflict`');
  expect(Object.keys(add.responses!)).toEqual(expect.arrayContaining(['201', '400', '403', '409', '413', '415', '421', '500']));
  expect(document.paths!['/notes']!.get).not.toHaveProperty('requestBody');
});

test('named schemas are written once, under components', () => {
  const output = noteOperations.strictNote.output;
  const document = JSON.parse(
    JSON.stringify(openapiDocument(noteOperations, { title: 'T', version: '1', schemas: { Shelf: output } })),
  ) as Json;
  expect(references(document.paths)).toContain('#/components/schemas/Shelf');
  expect(document.components!.schemas!.Shelf).toMatchObject({ properties: { shelf: { type: 'string' } } });
});

test('the server answers its document, built once', async () => {
  const app = await startNotes();
  const [first, second] = await Promise.all([fetch(`${app.url}/openapi.json`), fetch(`${app.url}/openapi.json`)]);
  expect(await first.json()).toMatchObject({ openapi: '3.1.0', info: { title: 'Notes' } });
  expect(second.status).toBe(200);
  await app.close();
});
