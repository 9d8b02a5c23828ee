import { CsiError } from "../../core/errors.ts";
import type { Files } from "./files.ts";
import type { DirectorySettings } from "./settings.ts";

type Wish = number | string | undefined;

/** Gives the root of a new tree its mode and owner. Undefined when the settings ask for neither. */
export type Dress = ((folder: string) => Promise<void>) | undefined;

/** The number behind a name in /etc/passwd or /etc/group (passwd(5), group(5): the third field). */
async function lookUp(files: Files, file: string, wish: Wish): Promise<number | undefined> {
  if (wish === undefined || typeof wish === "number") return wish;
  if (/^\d{1,10}$/.test(wish)) return Number(wish);
  const lines = ((await files.readText(file)) ?? "").split("\n").map(line => line.split(":"));
  const id = lines.find(([name]) => name === wish)?.[2];
  if (id !== undefined && /^\d{1,10}$/.test(id)) return Number(id);
  throw new CsiError("failed-precondition", `"${wish}" is not in ${file} where csimux runs; give its number instead`);
}

/** Mode and owner as the settings ask for. Names are looked up once, at the first use. */
export function dressOf(files: Files, settings: DirectorySettings): Dress {
  const { mode, user, group } = settings;
  if (mode === undefined && user === undefined && group === undefined) return undefined;
  let numbers: readonly [number | undefined, number | undefined] | undefined;
  return async folder => {
    numbers ??= [await lookUp(files, "/etc/passwd", user), await lookUp(files, "/etc/group", group)];
    const [uid, gid] = numbers;
    // chown(2) may clear the set-user-ID and set-group-ID bits, so the mode comes last; chmod(2) knows no umask.
    if (uid !== undefined || gid !== undefined) await files.chown(folder, uid, gid);
    if (mode !== undefined) await files.chmod(folder, mode);
  };
}
