import { CsiError, errnoOf } from "../../core/errors.ts";
import type { Files } from "./files.ts";
import type { OperationContext } from "./operation-context.ts";
import type { DirectorySettings } from "./settings.ts";

type ModeOption = number | string | undefined;

/** The number behind a name in /etc/passwd or /etc/group (passwd(5), group(5): the third field). */
async function lookUp(files: Files, file: string, wish: ModeOption): Promise<number | undefined> {
  if (wish === undefined || typeof wish === "number") return wish;
  if (/^\d{1,10}$/.test(wish)) return Number(wish);
  const lines = ((await files.readText(file)) ?? "").split("\n").map(line => line.split(":"));
  const id = lines.find(([name]) => name === wish)?.[2];
  if (id !== undefined && /^\d{1,10}$/.test(id)) return Number(id);
  throw new CsiError("failed-precondition", `"${wish}" is not in ${file} where csimux runs; give its number instead`);
}

/** chown(2): only root gives folders away. What csimux may write is not the question then. */
function refused(cause: unknown): never {
  if (errnoOf(cause) !== "EPERM") throw cause;
  throw new CsiError(
    "failed-precondition",
    "a new folder cannot be given to the owner or group that the file asks for: that takes root; run csimux as root, or remove dirPermissionsUser and dirPermissionsGroup",
    { cause },
  );
}

type Wishes = Pick<DirectorySettings, "mode" | "user" | "group">;

/** Mode and owner of the root of a new tree, as the settings ask for. */
export class OwnershipAndMode {
  readonly #space: Pick<OperationContext, "files">;
  readonly #wishes: Wishes;
  /** Names are looked up once, at the first use. */
  #numbers: readonly [number | undefined, number | undefined] | undefined;

  constructor(space: Pick<OperationContext, "files">, wishes: Wishes) {
    this.#space = space;
    this.#wishes = wishes;
  }

  /** Whether the settings ask for nothing. */
  get isPlain(): boolean {
    const { mode, user, group } = this.#wishes;
    return mode === undefined && user === undefined && group === undefined;
  }

  /** Gives a folder what the settings ask for. Throws "failed-precondition" for a name that this system does not know. */
  async apply(folder: string): Promise<void> {
    const { mode, user, group } = this.#wishes;
    const { files } = this.#space;
    this.#numbers ??= [await lookUp(files, "/etc/passwd", user), await lookUp(files, "/etc/group", group)];
    const [uid, gid] = this.#numbers;
    // chown(2) may clear the set-user-ID and set-group-ID bits, so the mode comes last; chmod(2) knows no umask.
    if (uid !== undefined || gid !== undefined) await files.chown(folder, uid, gid).catch(refused);
    if (mode !== undefined) await files.chmod(folder, mode);
  }
}
