import { expect, test } from 'vitest';
import { startSignet } from '../helpers/signet.ts';

test('/metrics counts turns, tokens, tool calls and states since the start, in the text format of Prometheus', async () => {
  const signet = await startSignet();
  try {
    const scrape = async () => (await fetch(`${signet.runtimeUrl}/metrics`)).text();
    const session = await signet.client.session.create({});
    await signet.client.session.prompt(session.id, { content: 'remember I like tea' });

    const text = await scrape();
    for (const line of [
      'signet_turns_total{outcome="end_turn"} 1',
      'signet_model_calls_total{purpose="chat",outcome="ok"} 2',
      'signet_tool_calls_total{outcome="ok"} 1',
      'signet_sessions{state="idle"} 1',
      'signet_sessions_in_memory 1',
      'signet_prompts_queued 0',
      'signet_readers_lagging 0',
      'signet_session_restarts_total 0',
    ]) {
      expect(text.split('\n')).toContain(line);
    }
    expect(text).toMatch(/signet_append_seconds_count [1-9]/);
    expect(text).toMatch(/signet_state_seconds_count\{state="session.turn.researching"\} 1/);
    expect(text).toMatch(/signet_tokens_total\{purpose="chat",direction="in"\} [1-9]/);
    // Every bucket counts those below it, and the last one all.
    expect(text).toMatch(/signet_state_seconds_bucket\{le="1800",state="session.turn.researching"\} 1/);
    expect(text).toMatch(/signet_state_seconds_bucket\{le="\+Inf",state="session.turn.researching"\} 1/);
    await signet.client.session.prompt(session.id, { content: 'remember I like tea' });
    expect((await scrape()).split('\n')).toContain('signet_turns_total{outcome="end_turn"} 2');
  } finally {
    await signet.close();
  }
});
