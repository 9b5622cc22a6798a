/** Longest `[a,b]:` prefix the daemon reads as tags, in characters. */
const TAG_PREFIX_CHARS_MAX = 256;

/**
 * Tags travel as a prefix of the content (spec/mcp-server, memory_store); as a field where a prefix would be read as something else.
 *
 * @param charsMax  longest content, prefix included
 */
export function withTagPrefix(told: { content: string; tags?: string | undefined }, charsMax: number): { content: string; tags?: string } {
  const { content, tags } = told;
  if (!tags?.trim()) return { content };
  const prefix = `[${tags.trim()}]:`;
  const isReadable = prefix.length <= TAG_PREFIX_CHARS_MAX && !/[\]\n]/.test(tags) && !/^\s*(\[|critical:)/i.test(content);
  return isReadable && prefix.length + content.length < charsMax ? { content: `${prefix} ${content}` } : { content, tags };
}
