import { dlopen } from "bun:ffi";

/** The calls of setxattr(2) and getxattr(2), which node:fs lacks; links are not followed. Arrays as arguments live until the call returns; `ptr` of one does not. */
const libc = dlopen("libc.so.6", {
  lsetxattr: { args: ["ptr", "ptr", "ptr", "u64", "i32"], returns: "i32" },
  lgetxattr: { args: ["ptr", "ptr", "ptr", "u64"], returns: "i64" },
});

const text = (value: string): Uint8Array => Buffer.from(`${value}\0`);

/** Sets an extended attribute of a file. */
export function setAttribute(path: string, name: string, value: Uint8Array): void {
  const result = libc.symbols.lsetxattr(text(path), text(name), value, value.length, 0);
  if (result !== 0) throw new Error(`lsetxattr: ${path}: ${name}`);
}

/** The value of an extended attribute as hexadecimal digits; undefined if the file has none of this name. */
export function attribute(path: string, name: string): string | undefined {
  const value = new Uint8Array(4096);
  const length = Number(libc.symbols.lgetxattr(text(path), text(name), value, value.length));
  return length < 0 ? undefined : Buffer.from(value.subarray(0, length)).toString("hex");
}

/**
 * A POSIX ACL as the kernel stores it (linux/posix_acl_xattr.h): version 2, then tag, permissions and id of each entry. The owner and user
 * `uid` may do everything, the group may read, others may do nothing.
 */
export function aclFor(uid: number): Uint8Array {
  const none = 0xff_ff_ff_ff;
  const entries = [
    [0x01, 7, none],
    [0x02, 7, uid],
    [0x04, 4, none],
    [0x10, 7, none],
    [0x20, 0, none],
  ] as const;
  const acl = Buffer.alloc(4 + entries.length * 8);
  acl.writeUInt32LE(2, 0);
  entries.forEach(([tag, permissions, id], index) => {
    acl.writeUInt16LE(tag, 4 + index * 8);
    acl.writeUInt16LE(permissions, 6 + index * 8);
    acl.writeUInt32LE(id, 8 + index * 8);
  });
  return acl;
}
