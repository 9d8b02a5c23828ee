import type { Call } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import type { ReadableTree } from "../../drivers/copying.ts";
import { ignoreMissing } from "../../io/runner.ts";

/** The attribute in which Linux shows the NFSv4 ACL of a file (linux/fs/nfs/nfs4proc.c, XATTR_NAME_NFSV4_ACL). */
const attribute = "system.nfs4_acl";

/** The entries that every mode has (RFC 8881 section 6.2.1.5). */
const ofMode: ReadonlySet<string> = new Set(["OWNER@", "GROUP@", "EVERYONE@"]);

/** What getfattr says of a file without this attribute: its own words for ENODATA, and those of glibc and musl for EOPNOTSUPP (attr 2.5.1). */
const hasNone = /: (?:No such attribute|(?:Operation )?not supported)$/im;

/**
 * The names in an NFSv4 ACL, as the client hands it out: a count, and for each entry type, flags and mask of four bytes each, the length
 * of the name, and the name, padded to four bytes (linux/fs/nfs/nfs4xdr.c; RFC 8881 section 6.2.1). Undefined if it has another form.
 */
export function namesInAcl(acl: Buffer): readonly string[] | undefined {
  if (acl.length < 4) return undefined;
  const names: string[] = [];
  let at = 4;
  for (let left = acl.readUInt32BE(0); left > 0; left--) {
    if (at + 16 > acl.length) return undefined;
    const length = acl.readUInt32BE(at + 12);
    if (at + 16 + length > acl.length) return undefined;
    names.push(acl.toString("utf8", at + 16, at + 16 + length));
    at += 16 + Math.ceil(length / 4) * 4;
  }
  return names;
}

/** Tenants can read it, so that it does not show the path. */
function unread(connection: string, stderr: string): CsiError {
  const why = stderr.trim().split(": ").at(-1) || "it gives no reason";
  const text = `connection "${connection}": getfattr cannot read whether the top folder of the volume has an NFSv4 ACL (${why}); retrying`;
  return new CsiError("unavailable", text);
}

/**
 * Throws "failed-precondition" if the top folder has an NFSv4 ACL with more entries than its mode has: rsync does not copy attributes in the
 * "system" namespace (rsync(1), "-X"), so the ACL would be lost. Throws "unavailable" if getfattr cannot read it, such as while the server
 * fails. Without getfattr nothing is checked, which is logged.
 */
export async function refuseAcls({ path, runner }: ReadableTree, connection: string, call: Call): Promise<void> {
  const argv = ["getfattr", "--absolute-names", "-e", "hex", "-n", attribute, "--", path] as const;
  try {
    const { exitCode, stdout, stderr } = await runner.run({ argv }, call.signal);
    if (exitCode !== 0 && hasNone.test(stderr.trim())) return;
    if (exitCode !== 0) throw unread(connection, stderr);
    const digits = new RegExp(`^${attribute}=0x([0-9a-f]*)`, "im").exec(stdout)?.[1] ?? "";
    const names = namesInAcl(Buffer.from(digits, "hex"));
    if (names?.every(name => ofMode.has(name))) return;
  } catch (error) {
    ignoreMissing(error);
    call.log.info(
      "getfattr is not installed, so NFSv4 ACLs of copied files are lost without a message; install it where csimux runs",
      { connection },
    );
    return;
  }
  const text = `connection "${connection}": the top folder of the volume has an NFSv4 ACL, which cannot be copied; to lose them, set "copies.drop: [acls]" in its file`;
  throw new CsiError("failed-precondition", text);
}
