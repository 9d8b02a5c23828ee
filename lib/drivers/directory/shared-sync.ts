import type { Files } from "./files.ts";

/**
 * The same files with one fsync for all who wait for the same folder. Only a sync that has not begun is shared: one that is running
 * may have missed the newest names.
 */
export function withSharedSync(files: Files): Files {
  const running = new Map<string, Promise<void>>();
  const waiting = new Map<string, Promise<void>>();

  const begin = (folder: string): Promise<void> => {
    const sync = files.sync(folder).finally(() => {
      if (running.get(folder) === sync) running.delete(folder);
    });
    running.set(folder, sync);
    return sync;
  };

  const afterwards = async (folder: string, current: Promise<void>): Promise<void> => {
    await current.catch(() => undefined);
    waiting.delete(folder);
    await begin(folder);
  };

  return {
    ...files,
    sync(folder) {
      const current = running.get(folder);
      if (current === undefined) return begin(folder);
      const next = waiting.get(folder) ?? afterwards(folder, current);
      waiting.set(folder, next);
      return next;
    },
  };
}
