const BYTES_PER_KIB = 1_024;

/** Memory of the process in RAM; its peak where the present cannot be read: that takes a file descriptor, and there may be none left. Unit: bytes. */
export function residentBytes(): number {
  try {
    return process.memoryUsage.rss();
  } catch {
    return process.resourceUsage().maxRSS * BYTES_PER_KIB;
  }
}
