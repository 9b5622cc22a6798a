/** Loaded into a daemon by `node --import`: two full collections at SIGUSR2, so that what is only not collected yet counts as no growth. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;
process.on('SIGUSR2', () => {
  collect();
  collect();
});
