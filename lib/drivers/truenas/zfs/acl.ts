import { ZfsError } from "../../zfs/zfs.ts";

/** Converts command lines of setfacl(1) (FreeBSD: NFSv4, Linux: POSIX), as democratic-csi has them, to entries of the API. */

/** An entry of the API. */
export interface AclEntry {
  readonly tag: string;
  readonly type?: string | undefined;
  readonly default?: boolean | undefined;
  readonly id?: number | null | undefined;
  readonly who?: string | null | undefined;
  readonly perms: object;
  readonly flags?: object | undefined;
}

/** The change that one command line asks for; `clear` removes the list first. */
export interface AclChange {
  readonly clear: boolean;
  /** Each as text, such as `everyone@:full_set:fd:allow`. */
  readonly entries: readonly string[];
}

const invalid = (text: string): ZfsError => new ZfsError("invalid", text);

/** Throws ZfsError "invalid" for an option that has no counterpart in the API. */
export function aclChange(argv: readonly string[]): AclChange {
  let clear = false;
  const entries: string[] = [];
  for (let at = 0; at < argv.length; at++) {
    const option = argv[at] ?? "";
    if (option === "-b") clear = true;
    else if (option === "-m" || option === "-a") {
      // The position after -a is ignored: the API keeps lists in their canonical order.
      if (option === "-a") at++;
      entries.push(...(argv[++at] ?? "").split(",").filter(each => each !== ""));
    } else throw invalid(`"${option.slice(0, 40)}" of datasetPermissionsAcls is not understood: use -m, -a or -b`);
  }
  return { clear, entries };
}

const letters: Readonly<Record<string, string>> = {
  ...{ r: "READ_DATA", w: "WRITE_DATA", x: "EXECUTE", p: "APPEND_DATA", D: "DELETE_CHILD", d: "DELETE" },
  ...{ a: "READ_ATTRIBUTES", A: "WRITE_ATTRIBUTES", R: "READ_NAMED_ATTRS", W: "WRITE_NAMED_ATTRS" },
  ...{ c: "READ_ACL", C: "WRITE_ACL", o: "WRITE_OWNER", s: "SYNCHRONIZE" },
};
const sets: Readonly<Record<string, string>> = {
  full_set: "rwxpDdaARWcCos",
  modify_set: "rwxpDdaARWcs",
  read_set: "raRc",
  write_set: "wpAW",
};
const flagLetters: Readonly<Record<string, string>> = {
  f: "FILE_INHERIT",
  d: "DIRECTORY_INHERIT",
  i: "INHERIT_ONLY",
  n: "NO_PROPAGATE_INHERIT",
};

function switches(text: string, known: Readonly<Record<string, string>>, whole: string): Record<string, boolean> {
  const chosen = [...text.replaceAll("-", "")].map(letter => {
    const name = known[letter];
    if (name === undefined) throw invalid(`"${letter}" in the access control entry "${whole}" is unknown`);
    return name;
  });
  return Object.fromEntries(Object.values(known).map(name => [name, chosen.includes(name)]));
}

const whose = (name: string): Pick<AclEntry, "id" | "who"> =>
  /^[0-9]+$/.test(name) ? { id: Number(name) } : { who: name };

const tags: Readonly<Record<string, string>> = { u: "USER", user: "USER", g: "GROUP", group: "GROUP" };

/** Parses an entry of NFSv4 such as `owner@:rwx:fd:allow` or `u:kube:full_set:allow` (RFC 3530, 5.11). */
export function nfs4Entry(text: string): AclEntry {
  const parts = text.split(":");
  const special = /^(?:owner|group|everyone)@$/.test(parts[0] ?? "");
  const [head = "", ...rest] = special ? parts : [parts[0] ?? "", ...parts.slice(1)];
  const name = special ? undefined : rest.shift();
  const tag = special ? head : tags[head];
  const [perms = "", ...tail] = rest;
  const type = (tail.pop() ?? "").toUpperCase();
  if (tag === undefined || name === "" || perms === "" || tail.length > 1 || !/^(?:ALLOW|DENY)$/.test(type))
    throw invalid(`the access control entry "${text}" must look like everyone@:full_set:fd:allow or u:1000:rwx:allow`);
  return {
    tag,
    type,
    ...(name === undefined ? {} : whose(name)),
    perms: switches(sets[perms] ?? perms, letters, text),
    flags: switches(tail[0] ?? "", flagLetters, text),
  };
}

/** Parses an entry of a POSIX list such as `u:1000:rwx`, `d:g::r-x` or `m::rwx` (acl(5)). */
export function posixEntry(text: string): AclEntry {
  const match = /^(d:|default:)?(u|user|g|group|o|other|m|mask):([^:]*):([r-][w-][xX-]|[0-7])$/.exec(text);
  if (!match) throw invalid(`the access control entry "${text}" must look like u:1000:rwx or d:g::r-x`);
  const [, standard, kind = "", name = "", bits = ""] = match;
  const letter = kind.slice(0, 1);
  const named: Readonly<Record<string, string>> = { u: "USER", g: "GROUP" };
  const bare: Readonly<Record<string, string>> = { u: "USER_OBJ", g: "GROUP_OBJ", o: "OTHER", m: "MASK" };
  const tag = (name === "" ? bare : named)[letter];
  if (tag === undefined) throw invalid(`the access control entry "${text}" has a name where none is allowed`);
  const has = (flag: number, sign: string): boolean =>
    /[0-7]/.test(bits) ? (Number(bits) & flag) !== 0 : bits.toLowerCase().includes(sign);
  return {
    tag,
    default: standard !== undefined,
    ...(name === "" ? {} : whose(name)),
    perms: { READ: has(4, "r"), WRITE: has(2, "w"), EXECUTE: has(1, "x") },
  };
}

/** The fault of a command line, for either kind of list; undefined if there is none. */
export function aclFault(argv: readonly string[]): string | undefined {
  try {
    for (const entry of aclChange(argv).entries) (/:(?:allow|deny)$/i.test(entry) ? nfs4Entry : posixEntry)(entry);
    return undefined;
  } catch (error) {
    return error instanceof ZfsError ? error.message : String(error);
  }
}

const unnamed = (id: number | null | undefined): boolean => id === undefined || id === null || id === -1;

/** The fields that a request accepts; the number of a user or group wins over the name. */
const asked = ({ tag, type, default: standard, id, who, perms, flags }: AclEntry): AclEntry => ({
  tag,
  ...(type === undefined ? {} : { type }),
  ...(standard === undefined ? {} : { default: standard }),
  ...(/^(?:USER|GROUP)$/.test(tag) ? (unnamed(id) ? { who } : { id }) : {}),
  perms,
  ...(flags === undefined ? {} : { flags }),
});

const same = (a: AclEntry, b: AclEntry): boolean =>
  a.tag === b.tag &&
  a.type === b.type &&
  a.default === b.default &&
  (unnamed(a.id) ? undefined : a.id) === (unnamed(b.id) ? undefined : b.id) &&
  (a.who ?? undefined) === (b.who ?? undefined);

/** A list with entries replaced or, at its beginning, added. */
export function merged(existing: readonly AclEntry[], entries: readonly AclEntry[]): readonly AclEntry[] {
  const plain = existing.map(asked);
  const kept = plain.map(each => entries.findLast(entry => same(entry, each)) ?? each);
  const added = entries.filter((entry, at) => !plain.some(each => same(entry, each)) && lastOf(entries, entry) === at);
  return [...added, ...kept];
}

const lastOf = (entries: readonly AclEntry[], entry: AclEntry): number =>
  entries.findLastIndex(each => same(each, entry));

/** Adds the entries that a POSIX list needs: a mask if it names a user or group, and the base entries of defaults (acl(5)). */
export function completed(list: readonly AclEntry[]): readonly AclEntry[] {
  const all = [...list];
  const has = (tag: string, standard: boolean) => all.some(each => each.tag === tag && each.default === standard);
  if (all.some(each => each.default))
    for (const tag of ["USER_OBJ", "GROUP_OBJ", "OTHER"]) {
      const base = all.find(each => each.tag === tag && !each.default);
      if (base && !has(tag, true)) all.push({ ...base, default: true });
    }
  for (const standard of [false, true])
    if ((has("USER", standard) || has("GROUP", standard)) && !has("MASK", standard))
      all.push({ tag: "MASK", default: standard, perms: { READ: true, WRITE: true, EXECUTE: true } });
  return all;
}
