import { CsiError, errnoOf } from "../../core/errors.ts";
import type { Files } from "../../io/files.ts";
import type { DirectorySettings } from "./kinds.ts";
import type { OperationContext } from "./operation-context.ts";

type ModeOption = number | string | undefined;

/** The number of a name in /etc/passwd or /etc/group (passwd(5), group(5): the third field). */
async function lookUp(files: Files, file: string, wish: ModeOption): Promise<number | undefined> {
  if (wish === undefined || typeof wish === "number") return wish;
  if (/^\d{1,10}$/.test(wish)) return Number(wish);
  const lines = ((await files.readText(file)) ?? "").split("\n").map(line => line.split(":"));
  const id = lines.find(([name]) => name === wish)?.[2];
  if (id !== undefined && /^\d{1,10}$/.test(id)) return Number(id);
  throw new CsiError("failed-precondition", `"${wish}" is not in ${file} where csimux runs; give its number instead`);
}

/** Only root can change owners (chown(2)). */
function refused(cause: unknown): never {
  if (errnoOf(cause) !== "EPERM") throw cause;
  const text =
    "cannot set the owner or group of a new folder, because only root can; run csimux as root, or remove dirPermissionsUser and dirPermissionsGroup";
  throw new CsiError("failed-precondition", text, { cause });
}

type Wishes = Pick<DirectorySettings, "mode" | "user" | "group">;

/** Mode and owner of the root of a new tree. */
export class OwnershipAndMode {
  readonly #context: Pick<OperationContext, "files">;
  readonly #wishes: Wishes;
  /** Names are looked up once, on first use. */
  #numbers: readonly [number | undefined, number | undefined] | undefined;

  constructor(context: Pick<OperationContext, "files">, wishes: Wishes) {
    this.#context = context;
    this.#wishes = wishes;
  }

  /** Whether the settings leave both unchanged. */
  get isPlain(): boolean {
    const { mode, user, group } = this.#wishes;
    return mode === undefined && user === undefined && group === undefined;
  }

  /** Applies the settings to a folder. Throws "failed-precondition" for an unknown name. */
  async apply(folder: string): Promise<void> {
    const { mode, user, group } = this.#wishes;
    const { files } = this.#context;
    this.#numbers ??= [await lookUp(files, "/etc/passwd", user), await lookUp(files, "/etc/group", group)];
    const [uid, gid] = this.#numbers;
    // chown(2) may clear the set-user-ID and set-group-ID bits, so the mode comes last; chmod(2) ignores the umask.
    if (uid !== undefined || gid !== undefined) await files.chown(folder, uid, gid).catch(refused);
    if (mode !== undefined) await files.chmod(folder, mode);
  }
}
