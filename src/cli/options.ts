import { type Command, InvalidArgumentError } from 'commander';

/** Where a client finds the runtime. */
export function addAddressOptions(command: Command): Command {
  return command
    .option(
      '--url <url>',
      'address of the runtime (SIGNET_RUNTIME_URL; default: the daemon of the data folder, else http://127.0.0.1:7700)',
    )
    .option('--path <folder>', 'data folder (SIGNET_PATH; default ~/.agents)');
}

/** How answers are written, for a command that begins or goes on with a session. */
export function addGenerationOptions(command: Command): Command {
  return command
    .option('--temperature <number>', 'randomness of the answers, 0 to 2', numberArgument(0, 2))
    .option('--top-p <number>', 'share of the likeliest tokens that are chosen from, 0 to 1', numberArgument(0, 1))
    .option('--max-tokens <number>', 'tokens an answer may have', wholeNumberArgument(1, 10_000_000))
    .option('--stop-sequences <text...>', 'texts that end an answer')
    .option(
      '--thinking-tokens <number>',
      'tokens of extended thinking per model call; 0 asks for none',
      wholeNumberArgument(0, 10_000_000),
    );
}

/** Reads a number within bounds. */
function numberArgument(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (!/^\d+(\.\d+)?$/.test(text) || value < min || value > max)
      throw new InvalidArgumentError(`It must be a number from ${min} to ${max}.`);
    return value;
  };
}

/** Reads a whole number within bounds; commander shows the failure beside the option's name. */
export function wholeNumberArgument(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (!/^\d+$/.test(text) || value < min || value > max)
      throw new InvalidArgumentError(`It must be a whole number from ${min} to ${max}.`);
    return value;
  };
}
