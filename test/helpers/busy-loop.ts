/** Time of one block; unit: milliseconds. */
const BLOCK_MS = 250;

/** Keeps the event loop of this process late until it is stopped, with moments in between in which everything else runs. */
export function keepLoopBusy(): { stop(): void } {
  let isBusy = true;
  const block = () => {
    if (!isBusy) return;
    const until = performance.now() + BLOCK_MS;
    while (performance.now() < until);
    setTimeout(block, 1);
  };
  block();
  return {
    stop: () => {
      isBusy = false;
    },
  };
}
