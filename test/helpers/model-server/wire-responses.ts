import { type Frame, jsonFrame, type WireAnswer, type WireError } from './frames.ts';
import { callId, inputPieces, inputText, type Reply, replyStop, replyText, replyUsage, textPieces } from './reply.ts';

const CREATED_S = 1_700_000_000;

export const RESPONSES_OVERFLOW: WireError = {
  status: 400,
  type: 'invalid_request_error',
  code: 'context_length_exceeded',
  message: 'Your input exceeds the context window of this model. Please adjust your input and try again.',
};

/** Collects events and numbers them as the API does. */
interface Events {
  add(type: string, fields: Record<string, unknown>, delta?: boolean): void;
}

/** Answer of the Responses API, streamed or whole. */
export function responsesAnswer(reply: Reply, request: { readonly number: number; readonly model: string }): WireAnswer {
  const items = outputItems(reply, request.number);
  const response = (status: string, whole: boolean) => ({
    id: `resp_${request.number}`,
    object: 'response',
    created_at: CREATED_S,
    status,
    model: request.model,
    error: null,
    incomplete_details: status === 'incomplete' ? { reason: 'max_output_tokens' } : null,
    output: whole ? items : [],
    usage: whole ? wireUsage(reply) : null,
  });
  const last = replyStop(reply) === 'max_tokens' ? 'incomplete' : 'completed';
  return {
    frames: () => {
      const frames: Frame[] = [];
      const events: Events = {
        add: (type, fields, delta = false) => frames.push(jsonFrame(type, { type, sequence_number: frames.length, ...fields }, delta)),
      };
      events.add('response.created', { response: response('in_progress', false) });
      events.add('response.in_progress', { response: response('in_progress', false) });
      for (const [index, item] of items.entries()) addItem(events, item, index, reply);
      events.add(`response.${last}`, { response: response(last, true) });
      return frames;
    },
    body: () => response(last, true),
  };
}

type Item = { readonly type: string; readonly id: string } & Record<string, unknown>;

function outputItems(reply: Reply, number: number): Item[] {
  const items: Item[] = [];
  if (reply.thinking !== undefined) {
    const summary = [{ type: 'summary_text', text: reply.thinking }];
    items.push({ type: 'reasoning', id: `rs_${number}`, summary, encrypted_content: reply.signature ?? 'sealed' });
  }
  const text = replyText(reply);
  if (text !== '') {
    const part =
      replyStop(reply) === 'refusal' ? { type: 'refusal', refusal: text } : { type: 'output_text', text, annotations: [], logprobs: [] };
    items.push({ type: 'message', id: `msg_${number}`, status: 'completed', role: 'assistant', content: [part] });
  }
  for (const [index, call] of (reply.toolCalls ?? []).entries()) {
    items.push({
      type: 'function_call',
      id: `fc_${number}_${index}`,
      status: 'completed',
      call_id: callId(call, number, index),
      name: call.name,
      arguments: inputText(call),
    });
  }
  return items;
}

function addItem(events: Events, item: Item, index: number, reply: Reply): void {
  const place = { item_id: item.id, output_index: index };
  if (item.type === 'reasoning') {
    events.add('response.output_item.added', { output_index: index, item: { ...item, summary: [] } });
    const part = { ...place, summary_index: 0 };
    events.add('response.reasoning_summary_part.added', { ...part, part: { type: 'summary_text', text: '' } });
    events.add('response.reasoning_summary_text.delta', { ...part, delta: reply.thinking }, true);
    events.add('response.reasoning_summary_text.done', { ...part, text: reply.thinking });
    events.add('response.reasoning_summary_part.done', { ...part, part: { type: 'summary_text', text: reply.thinking } });
  } else if (item.type === 'message') {
    const refusal = replyStop(reply) === 'refusal';
    const part = { ...place, content_index: 0 };
    events.add('response.output_item.added', { output_index: index, item: { ...item, status: 'in_progress', content: [] } });
    events.add('response.content_part.added', {
      ...part,
      part: refusal ? { type: 'refusal', refusal: '' } : { type: 'output_text', text: '' },
    });
    for (const delta of textPieces(reply))
      events.add(refusal ? 'response.refusal.delta' : 'response.output_text.delta', { ...part, delta }, true);
    const whole = replyText(reply);
    events.add(refusal ? 'response.refusal.done' : 'response.output_text.done', { ...part, [refusal ? 'refusal' : 'text']: whole });
    events.add('response.content_part.done', { ...part, part: (item.content as unknown[])[0] });
  } else {
    events.add('response.output_item.added', { output_index: index, item: { ...item, status: 'in_progress', arguments: '' } });
    const call = (reply.toolCalls ?? []).find((one) => inputText(one) === item.arguments && one.name === item.name);
    for (const delta of call ? inputPieces(call) : []) events.add('response.function_call_arguments.delta', { ...place, delta }, true);
    events.add('response.function_call_arguments.done', { ...place, name: item.name, arguments: item.arguments });
  }
  events.add('response.output_item.done', { output_index: index, item });
}

function wireUsage(reply: Reply): unknown {
  const usage = replyUsage(reply);
  if (!usage) return null;
  return {
    input_tokens: usage.inputTokens,
    input_tokens_details: { cached_tokens: usage.cacheReadTokens ?? 0, cache_write_tokens: usage.cacheWriteTokens ?? 0 },
    output_tokens: usage.outputTokens,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: usage.inputTokens + usage.outputTokens,
  };
}
