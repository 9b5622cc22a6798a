import { readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';

/** A memory as a set of recall tells it. */
export interface SetMemory {
  readonly id: string;
  readonly content: string;
  readonly who: string;
  readonly session: string | null;
  readonly createdAtMs: number;
  readonly project: string | null;
  readonly type?: string;
  readonly isPrivateTo?: string;
}

/** A question, and the ids of the memories that answer it; none where nothing does. */
export interface SetQuestion {
  readonly text: string;
  readonly evidence: readonly string[];
  /** Ids of what was true before. */
  readonly stale: readonly string[];
  readonly agent?: string;
  readonly project?: string;
}

/** Memories that are asked about together. */
export interface Store {
  readonly id: string;
  /** Asked about beside others in one daemon, each in its own project. */
  readonly isDialog: boolean;
  readonly memories: readonly SetMemory[];
  readonly questions: readonly SetQuestion[];
}

export interface RecallSet {
  readonly name: string;
  readonly stores: readonly Store[];
}

interface RawConversation {
  readonly id: string;
  readonly speakers: readonly string[];
  readonly memories: readonly {
    readonly id: string;
    readonly session: string;
    readonly who: string;
    readonly created_at: string;
    readonly text: string;
    readonly caption?: string;
    readonly type?: string;
    readonly agent?: string;
    readonly visibility?: string;
  }[];
  readonly questions: readonly {
    readonly question: string;
    readonly evidence: readonly string[];
    readonly evidenceSessions?: readonly string[];
    readonly stale?: readonly string[];
    readonly agent?: string;
  }[];
}

interface RawPractical {
  readonly memories: readonly { readonly date: string; readonly project: string | null; readonly content: string }[];
  readonly questions: readonly {
    readonly prompt: string;
    readonly answer: string | null;
    readonly stale: string | null;
    readonly project: string;
  }[];
}

/** All sets of a folder, by name: dialogs (`*.json` with `conversations`) and notes of a person (`practical/1`). */
export function readSets(folder: string, only?: readonly string[]): RecallSet[] {
  const sets: RecallSet[] = [];
  for (const file of readdirSync(folder).sort()) {
    const name = basename(file).split('.')[0]!;
    if (!file.endsWith('.json') || (only && !only.includes(name))) continue;
    const raw = JSON.parse(readFileSync(join(folder, file), 'utf8')) as { conversations?: RawConversation[]; format?: string };
    if (raw.conversations) sets.push({ name, stores: withStrangers(name, raw.conversations) });
    else if (raw.format === 'practical/1') sets.push({ name, stores: [practicalStore(raw as unknown as RawPractical)] });
  }
  return sets;
}

/** Questions of the next conversation with the names of this one's speakers are asked as well: nothing here answers them. */
function withStrangers(set: string, conversations: readonly RawConversation[]): Store[] {
  return conversations.map((conversation, place) => {
    const own = conversation.questions.filter(({ evidenceSessions }) => !evidenceSessions).map(toQuestion);
    const other = conversations[(place + 1) % conversations.length]!;
    const strange =
      conversations.length === 1 ? [] : other.questions.filter((_, index) => index % Math.ceil(other.questions.length / 30) === 0);
    const asked = strange.map(({ question }): SetQuestion => {
      const text = other.speakers.reduce(
        (told, speaker, index) => told.replaceAll(speaker, conversation.speakers[index % conversation.speakers.length]!),
        question,
      );
      return { text, evidence: [], stale: [] };
    });
    const { id } = conversation;
    const within = <T extends object>(one: T): T & { project: string } => ({ ...one, project: `${set}/${id}` });
    const memories = conversation.memories.map((memory) => toMemory(memory, `${set}/${id}`)).map(within);
    return {
      id,
      isDialog: true,
      memories,
      questions: [...own, ...asked].map((q) =>
        within({
          ...q,
          ...(q.agent ? { agent: `${set}/${id}/${q.agent}` } : {}),
          evidence: q.evidence.map((e) => `${set}/${id}/${e}`),
          stale: q.stale.map((e) => `${set}/${id}/${e}`),
        }),
      ),
    };
  });
}

function toMemory(
  { id, session, who, created_at, text, caption, type, agent, visibility }: RawConversation['memories'][number],
  place: string,
): SetMemory {
  return {
    id: `${place}/${id}`,
    content: `${who}: ${text}${caption ? ` [photo: ${caption}]` : ''}`,
    who,
    session: `${place}:${session}`,
    createdAtMs: Date.parse(created_at),
    project: null,
    ...(type ? { type } : {}),
    ...(visibility === 'private' ? { isPrivateTo: `${place}/${agent}` } : {}),
  };
}

function toQuestion({ question, evidence, stale, agent }: RawConversation['questions'][number]): SetQuestion {
  return { text: question, evidence, stale: stale ?? [], ...(agent ? { agent } : {}) };
}

function practicalStore({ memories, questions }: RawPractical): Store {
  const told = memories.map(
    ({ date, project, content }, index): SetMemory => ({
      id: `p${index}`,
      content,
      who: 'lena',
      session: `kept-${date}`,
      createdAtMs: Date.parse(`${date}T10:00:00Z`) + index,
      project,
    }),
  );
  const matching = (pattern: string | null): string[] =>
    pattern === null ? [] : told.filter(({ content }) => new RegExp(pattern).test(content)).map(({ id }) => id);
  return {
    id: 'practical',
    isDialog: false,
    memories: told,
    questions: questions.map(({ prompt, answer, stale, project }) => ({
      text: prompt,
      evidence: matching(answer),
      stale: matching(stale).filter((id) => !matching(answer).includes(id)),
      project,
    })),
  };
}
