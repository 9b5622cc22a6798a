import { readFileSync } from 'node:fs';

/** Where Linux says what this process may open. */
const LIMITS_FILE = '/proc/self/limits';
const OPEN_FILES = /^Max open files\s+(\d+|unlimited)/m;

/** File descriptors this process may have open at once, sockets included; Infinity when there is no limit or it cannot be known. Never throws. */
export function descriptorLimit(): number {
  try {
    return parseLimit(OPEN_FILES.exec(readFileSync(LIMITS_FILE, 'utf8'))?.[1]);
  } catch {
    return reportedLimit(); // Not Linux, or /proc is not mounted.
  }
}

/** The diagnostic report knows it on every POSIX system; it takes tens of milliseconds, so it is the second choice. */
function reportedLimit(): number {
  try {
    const report = process.report as NodeJS.ProcessReport & { excludeNetwork: boolean };
    report.excludeNetwork = true;
    const { userLimits } = report.getReport() as { userLimits?: { open_files?: { soft?: number | string } } };
    return parseLimit(String(userLimits?.open_files?.soft));
  } catch {
    return Number.POSITIVE_INFINITY; // Windows has no such limit.
  }
}

function parseLimit(text: string | undefined): number {
  const limit = Number(text);
  return Number.isInteger(limit) && limit > 0 ? limit : Number.POSITIVE_INFINITY;
}
