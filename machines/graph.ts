import type { AnyStateMachine, AnyStateNode, AnyTransitionDefinition } from 'xstate';
import type { GraphEdge, GraphNode } from '../src/contract/runtime.ts';

export interface StatechartGraph {
  readonly nodes: GraphNode[];
  readonly edges: GraphEdge[];
}

/**
 * All states and edges of a machine, eventless edges included (XState's own exports leave those out), in document order.
 * Edge ids are stable as long as the source's edges keep their order: `<source>#<event>#<n>`.
 */
export function statechartGraph(machine: AnyStateMachine): StatechartGraph {
  const nodes: GraphNode[] = [];
  const edges: GraphEdge[] = [];
  const walk = (node: AnyStateNode) => {
    nodes.push(graphNode(node));
    const transitions = [...node.transitions.values()].flat() as AnyTransitionDefinition[];
    const counts = new Map<string, number>();
    for (const transition of [...transitions, ...((node.always ?? []) as AnyTransitionDefinition[])]) {
      const index = counts.get(transition.eventType) ?? 0;
      counts.set(transition.eventType, index + 1);
      edges.push(graphEdge(node, transition, index));
    }
    for (const child of Object.values(node.states)) walk(child as AnyStateNode);
  };
  walk(machine.root);
  return { nodes, edges };
}

export function edgeKind(eventType: string): GraphEdge['kind'] {
  if (eventType === '') return 'always';
  return eventType.startsWith('xstate.done.') ? 'done' : 'event';
}

function graphNode(node: AnyStateNode): GraphNode {
  return {
    id: node.id,
    parent: node.parent?.id ?? null,
    key: node.key,
    type: node.type,
    initial: node.initial?.target?.[0]?.id ?? null,
    tags: [...node.tags],
    description: node.description ?? null,
    entry: node.entry.map(nameOf),
    exit: node.exit.map(nameOf),
  };
}

function graphEdge(node: AnyStateNode, transition: AnyTransitionDefinition, index: number): GraphEdge {
  return {
    id: `${node.id}#${transition.eventType || 'always'}#${index}`,
    source: node.id,
    target: (transition.target ?? [node]).map((target) => target.id),
    event: transition.eventType,
    kind: edgeKind(transition.eventType),
    guard: transition.guard ? nameOf(transition.guard) : null,
    actions: transition.actions.map(nameOf),
    description: transition.description ?? null,
  };
}

function nameOf(part: unknown): string {
  if (typeof part === 'string') return part;
  const type = (part as { type?: unknown }).type;
  return typeof type === 'string' ? type : 'inline';
}

/** Mermaid `stateDiagram-v2`. Ids are made of letters, digits and _ only, because a hyphen does not parse there. */
export function statechartMermaid(machine: AnyStateMachine): string {
  const { edges } = statechartGraph(machine);
  const lines = ['stateDiagram-v2'];
  const write = (node: AnyStateNode, indent: string) => {
    const children = Object.values(node.states) as AnyStateNode[];
    for (const child of children) {
      lines.push(`${indent}state "${child.key}" as ${mermaidId(child.id)}`);
      if (child.type === 'compound' || child.type === 'parallel') {
        lines.push(`${indent}state ${mermaidId(child.id)} {`);
        write(child, `${indent}  `);
        lines.push(`${indent}}`);
      }
    }
    const initial = node.initial?.target?.[0]?.id;
    if (initial) lines.push(`${indent}[*] --> ${mermaidId(initial)}`);
    for (const child of children) if (child.type === 'final') lines.push(`${indent}${mermaidId(child.id)} --> [*]`);
  };
  write(machine.root, '  ');
  for (const edge of edges) {
    if (edge.source === machine.root.id) continue;
    const label = `${edge.kind === 'always' ? 'always' : edge.event}${edge.guard ? ` [${edge.guard}]` : ''}`;
    for (const target of edge.target) lines.push(`  ${mermaidId(edge.source)} --> ${mermaidId(target)}: ${label}`);
  }
  return `${lines.join('\n')}\n`;
}

function mermaidId(id: string): string {
  return id.replaceAll(/[^A-Za-z0-9]/g, '_');
}
