const { existsSync } = require('node:fs');
const { join } = require('node:path');

/** The Node that npm installed beside Signet; the one that runs pm2 may be older. */
const bundledNode = join(__dirname, 'node_modules', `node-${process.platform}-${process.arch}`, 'bin', 'node');

// pm2 start ecosystem.config.cjs
module.exports = {
  apps: [
    {
      name: 'signet',
      script: join(__dirname, 'bin', 'signet.js'),
      args: 'start --foreground',
      interpreter: existsSync(bundledNode) ? bundledNode : process.execPath,
      // One arena instead of one a thread: about 6 MiB less, on glibc.
      env: { MALLOC_ARENA_MAX: '1', MALLOC_TRIM_THRESHOLD_: '131072' },
      // One process owns the databases. Cluster mode would start a second one, and would ignore `interpreter`.
      exec_mode: 'fork',
      instances: 1,
      // Longer than runtime.limits.drainTimeoutMs (10 s) and endTimeoutMs (15 s) together.
      kill_timeout: 30_000,
      autorestart: true,
      // A mistake in agent.yaml is not mended by starting again: waits grow, and ten quick ends are the last.
      exp_backoff_restart_delay: 500,
      min_uptime: 5_000,
      max_restarts: 10,
    },
  ],
};
