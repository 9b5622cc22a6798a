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

/** Reads a whole number within bounds; commander shows the failure beside the option's name. */
export function wholeNumberArgument(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (!/^\d+$/.test(text) || value < min || value > max)
      throw new InvalidArgumentError(`It must be a whole number from ${min} to ${max}.`);
    return value;
  };
}
