import { open, tested } from './requirements.row.ts';

/** Promises of spec/hooks about the harnesses that Signet connects to. */
export const CONNECTOR_REQUIREMENTS = {
  'OpenClaw Integration': {
    'connectors.openclaw.plugin': open('createPlugin takes enabled and daemonUrl and returns a plugin object'),
    'connectors.openclaw.disabled': open('A plugin with enabled: false sends nothing to the daemon'),
    'connectors.openclaw.default-url': open('Without daemonUrl the plugin calls http://localhost:3850'),
    'connectors.openclaw.session-start': open('onSessionStart calls the session-start hook and returns inject'),
    'connectors.openclaw.pre-compaction': open('onPreCompaction calls the pre-compaction hook and returns summaryPrompt'),
    'connectors.openclaw.compaction-complete': open('onCompactionComplete sends the summary to the compaction-complete hook'),
    'connectors.openclaw.remember': open('remember(content, { who }) saves a memory with its author'),
    'connectors.openclaw.recall': open('recall(query) returns matching memories'),
    'connectors.openclaw.session-file': open('A payload without summary takes the latest compaction summary from sessionFile'),
  },
  'Claude Code Integration': {
    'connectors.claude-code.settings': open('Connecting writes the hooks into ~/.claude/settings.json'),
    'connectors.claude-code.preserves': open('Connecting keeps the other settings of ~/.claude/settings.json'),
    'connectors.claude-code.session-start': open('SessionStart runs signet hook session-start with a timeout of 3000'),
    'connectors.claude-code.user-prompt-submit': open('UserPromptSubmit runs signet hook user-prompt-submit with a timeout of 7000'),
    'connectors.claude-code.session-end': open('SessionEnd runs signet hook session-end with a timeout of 15000'),
    'connectors.claude-code.refresh': open('signet connect claude-code renews the timeouts of an earlier installation'),
    'cli.hook.session-start': tested('signet hook session-start prints the context that the daemon returns'),
    'cli.hook.user-prompt-submit': tested('signet hook user-prompt-submit prints the context for the turn'),
    'cli.hook.session-end': tested('signet hook session-end ends the session at the daemon'),
    'cli.hook.harness-flag': tested('The flag -H names the harness in the request of a hook command'),
    'cli.hook.project-flag': tested('The flag --project names the project in the request of a hook command'),
    'cli.hook.prompt-timeout': tested('SIGNET_PROMPT_SUBMIT_TIMEOUT bounds the wait for the daemon; default 5000 ms'),
    'connectors.claude-code.timeout-grace': open('The installed prompt timeout is the wait budget plus 2000 ms'),
    'cli.connect': open('signet connect <harness> installs or updates the integration of a harness'),
  },
  'OpenCode Integration': {
    'connectors.opencode.plugin': open('signet connect opencode writes ~/.config/opencode/plugins/signet.mjs'),
    'connectors.opencode.lifecycle': open('The OpenCode plugin calls session-start, user-prompt-submit and session-end'),
    'connectors.opencode.tools': open('The OpenCode plugin offers remember and recall as native tools'),
    'connectors.opencode.setup': open('signet setup installs the OpenCode plugin when OpenCode is chosen'),
    'connectors.opencode.migrates': open('Connecting replaces the old ~/.config/opencode/memory.mjs by the plugin'),
  },
  'pi Integration': {
    'connectors.pi.extension': open('signet connector install pi writes ~/.pi/agent/extensions/signet-pi.js'),
    'connectors.pi.directory': open('PI_CODING_AGENT_DIR moves the place where the pi extension is installed'),
    'connectors.pi.lifecycle': open('The pi extension calls the session, prompt and compaction hooks'),
    'connectors.pi.commands': open('The pi extension offers /recall, /remember and /signet-status'),
    'connectors.pi.tools': open('The pi extension offers the model tools signet_recall and signet_remember'),
    'connectors.pi.setup': open('signet setup installs the pi extension when pi is chosen'),
    'connectors.pi.config': open('The pi extension reads signet.json beside it when there is one'),
    'connectors.pi.disabled': open('SIGNET_ENABLED=false silences the pi extension for one session'),
  },
} as const;
