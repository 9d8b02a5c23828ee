import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { CsiError } from "../../core/errors.ts";

/** By which subsystems know this node. */
export interface HostIdentity {
  readonly nqn: string;
  readonly id: string;
}

const uuidForm = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/i;

/**
 * The node's own identity: the host's /etc/nvme where it has one, as nvme-connect(1) uses it, otherwise one that follows from
 * its machine-id(5). It must differ between nodes, since access lists and reservations go by it, and stay the same on one.
 * Throws "failed-precondition" where the host has neither.
 */
export async function hostIdentity(root: string): Promise<HostIdentity> {
  const text = async (file: string) => (await readFile(join(root, file), "utf8").catch(() => "")).trim();
  const nqn = await text("etc/nvme/hostnqn");
  const id = uuidForm.exec(await text("etc/nvme/hostid"))?.[0];
  const own = uuidForm.exec(nqn)?.[0] ?? (await derived(text));
  if (nqn && id) return { nqn, id };
  if (nqn && own) return { nqn, id: own };
  const uuid = id ?? own;
  if (uuid) return { nqn: `nqn.2014-08.org.nvmexpress:uuid:${uuid}`, id: uuid };
  throw new CsiError(
    "failed-precondition",
    "this node has neither /etc/nvme/hostnqn nor /etc/machine-id; make the first with nvme gen-hostnqn",
  );
}

/** An application's own id from the machine's, which itself is not to be told to others (machine-id(5)). */
async function derived(text: (file: string) => Promise<string>): Promise<string | undefined> {
  const machine = await text("etc/machine-id");
  if (!/^[0-9a-f]{32}$/.test(machine)) return undefined;
  const hex = createHash("sha256").update(`csimux nvme host ${machine}`).digest("hex");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}
