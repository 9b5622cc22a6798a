import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { AnyStateMachine } from 'xstate';
import { statechartGraph, statechartMermaid } from '../../machines/graph.ts';
import { code, page, table } from './markdown.ts';

/** docs/machines.md: every statechart that `machines/*.machine.ts` exports, as a diagram and as a table of its edges. */
export async function machinesPage(root: string): Promise<string> {
  const files = readdirSync(join(root, 'machines'))
    .filter((name) => name.endsWith('.machine.ts'))
    .sort();
  const machines = await Promise.all(files.map(async (file) => machinesOf(await import(`../../machines/${file}`))));
  return page('Machines', [
    [
      'The statecharts this program runs. Their events are signals (see [signals.md](signals.md)); they call nothing and wait for nothing by',
      'themselves. An edge without an event is taken as soon as its guard holds.',
    ].join('\n'),
    ...machines.flat().flatMap(machineText),
  ]);
}

function machinesOf(exports: object): AnyStateMachine[] {
  return Object.values(exports).filter((value) => typeof value === 'object' && value !== null && 'root' in value && 'transition' in value);
}

function machineText(machine: AnyStateMachine): string[] {
  const { nodes, edges } = statechartGraph(machine);
  const short = (id: string): string => (id === machine.id ? id : id.replace(`${machine.id}.`, ''));
  const rows = edges.map(({ source, event, guard, target, actions }) => [
    code(short(source)),
    event === '' ? '' : code(event),
    guard === null ? '' : code(guard),
    target.length === 1 && target[0] === source ? 'stays' : target.map((id) => code(short(id))).join(', '),
    actions.map(code).join(', '),
  ]);
  return [
    `## ${machine.id}`,
    `${nodes.length} states, ${edges.length} edges.`,
    `\`\`\`mermaid\n${statechartMermaid(machine).trimEnd()}\n\`\`\``,
    table(['From', 'Event', 'Guard', 'To', 'Actions'], rows),
  ];
}
