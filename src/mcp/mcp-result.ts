import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js';
import { AppError } from '../core/errors.ts';

type Part = CallToolResult['content'][number];

/**
 * What a model gets of a tool's result: its texts, a line about each part that is not text, and the structured content where there is no text.
 *
 * @throws AppError `tool_failed` with the text of a result that says it is an error
 */
export function readResult(result: CallToolResult): unknown {
  const texts = result.content.map(textOf).filter((text) => text !== undefined);
  const notes = result.content.map(noteOf).filter((note) => note !== undefined);
  const structured = result.structuredContent;
  if (result.isError) {
    const said = [...texts, ...(texts.length === 0 && structured ? [JSON.stringify(structured)] : []), ...notes].join('\n');
    throw new AppError('tool_failed', { detail: said || 'the tool answered an error without saying why' });
  }
  if (texts.length > 0 || structured === undefined) return [...texts, ...notes].join('\n');
  return notes.length === 0 ? structured : [JSON.stringify(structured), ...notes].join('\n');
}

function textOf(part: Part): string | undefined {
  if (part.type === 'text') return part.text;
  return part.type === 'resource' && 'text' in part.resource ? part.resource.text : undefined;
}

function noteOf(part: Part): string | undefined {
  switch (part.type) {
    case 'image':
    case 'audio':
      return `[${part.type} ${part.mimeType}, ${bytesOf(part.data)} bytes, not shown]`;
    case 'resource_link':
      return `[resource ${part.uri}]`;
    case 'resource':
      return 'blob' in part.resource ? `[resource ${part.resource.uri}, ${bytesOf(part.resource.blob)} bytes, not shown]` : undefined;
    default:
      return undefined;
  }
}

function bytesOf(base64: string): number {
  return Buffer.byteLength(base64, 'base64');
}
