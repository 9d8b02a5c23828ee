import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { CsiError } from "../../core/errors.ts";

/** The identity of this node towards subsystems. */
export interface HostIdentity {
  readonly nqn: string;
  readonly id: string;
}

const uuidForm = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/i;

/**
 * The host's identity: from its /etc/nvme if present, as in nvme-connect(1), otherwise derived from its machine-id(5).
 * It must be unique and permanent for each node, because access lists and reservations depend on it. Throws
 * "failed-precondition" if the host has neither.
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
    "this node has neither /etc/nvme/hostnqn nor /etc/machine-id; create the first with nvme gen-hostnqn",
  );
}

/** Derives an application-specific id from the machine-id, which must not be exposed itself (machine-id(5)). */
async function derived(text: (file: string) => Promise<string>): Promise<string | undefined> {
  const machine = await text("etc/machine-id");
  if (!/^[0-9a-f]{32}$/.test(machine)) return undefined;
  const hex = createHash("sha256").update(`csimux nvme host ${machine}`).digest("hex");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}
