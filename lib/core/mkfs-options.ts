import { type Access, type Capability, defaultFilesystem } from "./access.ts";
import { CsiError } from "./errors.ts";

/** The class parameter, and the entry of a volume's context, with options for mkfs. */
export const mkfsOptionsKey = "mkfsOptions";

/** The most characters that a class may give. */
const most = 512;

/** The form of each option's value. */
type Options = Readonly<Record<string, RegExp>>;

const size = "\\d{1,12}[kKmMgGsb]?";
const oneOf = (...words: readonly string[]) => new RegExp(`^(?:${words.join("|")})$`);
const listOf = (...words: readonly string[]) => new RegExp(`^(?:${words.join("|")})(?:,(?:${words.join("|")}))*$`);
const label = /^[A-Za-z0-9][A-Za-z0-9._-]{0,15}$/;

/**
 * Features of ext4(5) but journal_dev, which makes no file system, and sparse_super2, with which the kernel grows none that is mounted
 * (Linux 5.14, fs/ext4/resize.c, ext4_resize_begin): an expanded volume could not be staged again. A "^" clears one.
 */
const extFeatures = [
  ..."64bit bigalloc casefold dir_index dir_nlink ea_inode encrypt ext_attr extent extents extra_isize fast_commit".split(
    " ",
  ),
  ..."filetype flex_bg has_journal huge_file inline_data large_dir large_file metadata_csum metadata_csum_seed".split(
    " ",
  ),
  ..."mmp orphan_file project quota resize_inode sparse_super stable_inodes uninit_bg verity".split(" "),
].map(feature => `\\^?${feature}`);

/** mke2fs(8), without what names devices or files, writes only parts, or decides on the identity of the file system. */
const ext: Options = {
  "-b": /^\d{4,5}$/,
  "-C": new RegExp(`^${size}$`),
  "-e": oneOf("continue", "remount-ro", "panic"),
  "-E": listOf(
    ..."hash_seed=[0-9a-f-]{36} lazy_itable_init(?:=[01])? lazy_journal_init(?:=[01])? packed_meta_blocks(?:=[01])?".split(
      " ",
    ),
    ..."no_copy_xattrs num_backup_sb=[012] quotatype=[a-z:]+ resize=\\d+ stride=\\d+ stripe_width=\\d+ stripe-width=\\d+".split(
      " ",
    ),
    ..."mmp_update_interval=\\d+ root_owner=\\d+:\\d+ encoding=[a-z0-9-]+ encoding_flags=[a-z]+ discard nodiscard".split(
      " ",
    ),
  ),
  "-g": /^\d{1,6}$/,
  "-G": /^\d{1,7}$/,
  "-i": /^\d{3,9}$/,
  "-I": /^\d{3,5}$/,
  "-J": listOf("size=\\d+", "fast_commit_size=\\d+"),
  "-L": label,
  "-m": /^\d{1,2}(?:\.\d{1,3})?$/,
  "-N": /^\d{1,10}$/,
  "-O": listOf(...extFeatures),
  "-T": /^[a-z0-9]{1,16}(?:,[a-z0-9]{1,16})*$/,
};

const pairs = (...keys: readonly string[]) => listOf(...keys.map(key => `${key}=${size}`));

/** mkfs.xfs(8), without names of devices and files and without the UUID. */
const xfs: Options = {
  "-b": pairs("size"),
  "-d": listOf(
    ...["agcount", "agsize", "sunit", "swidth", "su", "sw", "extszinherit", "cowextsize"].map(key => `${key}=${size}`),
    "noalign",
  ),
  "-i": pairs("size", "perblock", "maxpct", "align", "attr", "projid32bit", "sparse", "nrext64"),
  "-l": pairs("size", "sunit", "su", "version", "lazy-count"),
  "-L": /^[A-Za-z0-9][A-Za-z0-9._-]{0,11}$/,
  "-m": pairs("bigtime", "crc", "finobt", "inobtcount", "reflink", "rmapbt"),
  "-n": pairs("size", "ftype"),
  "-s": pairs("size"),
};

/** mkfs.btrfs(8), for one device. */
const btrfs: Options = {
  "-d": oneOf("single", "dup"),
  "-L": label,
  "-m": oneOf("single", "dup"),
  "-n": new RegExp(`^${size}$`),
  "-O": /^\^?[a-z0-9-]{1,32}(?:,\^?[a-z0-9-]{1,32})*$/,
  "-s": new RegExp(`^${size}$`),
  "--checksum": oneOf("crc32c", "xxhash", "sha256", "blake2"),
  "--csum": oneOf("crc32c", "xxhash", "sha256", "blake2"),
  "--nodesize": new RegExp(`^${size}$`),
  "--sectorsize": new RegExp(`^${size}$`),
};

const allowed: Readonly<Record<string, Options>> = { ext3: ext, ext4: ext, ext4dev: ext, xfs, btrfs };

/**
 * What the context of a new volume says about its file system: the options of its class, if it is to be a disk with a file system. Throws
 * "invalid-argument" for options that are not possible.
 */
export function mkfsContext(
  parameters: Readonly<Record<string, string>>,
  access: Access,
  capabilities: readonly Capability[],
): Readonly<Record<string, string>> {
  const text = parameters[mkfsOptionsKey]?.trim();
  const mounted = capabilities.filter(({ kind }) => kind === "mount");
  if (!text || !access.kinds.includes("block") || mounted.length === 0) return {};
  for (const { fsType } of mounted) mkfsOptions(text, fsType || defaultFilesystem);
  return { [mkfsOptionsKey]: text };
}

/**
 * The arguments of mkfs that a class gives in the parameter `mkfsOptions`, as one text with spaces: "-m 1 -E stride=4". Only options that
 * shape the file system are possible; those that name another device, write no file system, force, or set the identity would break the
 * proofs of csimux. `type` is a file system, as `fs_type` has it. Throws "invalid-argument", which names the first word that is not
 * possible.
 */
export function mkfsOptions(text: string, type: string): readonly string[] {
  const words = text.split(/\s+/).filter(word => word !== "");
  if (words.length === 0) return [];
  const options = Object.hasOwn(allowed, type) ? allowed[type] : undefined;
  if (!options) throw refused(`options for mkfs of ${type.slice(0, 40)} cannot be given`);
  if (text.length > most) throw refused(`it has ${text.length} characters, and at most ${most} are possible`);
  const left = words.flatMap(separated);
  const names = new Set<string>();
  while (left.length > 0) {
    const name = left.shift() ?? "";
    const form = Object.hasOwn(options, name) ? options[name] : undefined;
    if (!form) throw refused(`"${name}" is not an option that a class can give for ${type}`);
    // xfs refuses a second one, and mke2fs takes the last one silently.
    if (names.has(name)) throw refused(`"${name}" is given twice; separate its values by commas`);
    names.add(name);
    const value = left.shift();
    if (value === undefined || !form.test(value))
      throw refused(`"${name} ${value ?? ""}" is not a value that a class can give for ${type}`);
  }
  return words;
}

/** "-m1" and "--nodesize=16k" as an option and its value. */
function separated(word: string): readonly string[] {
  const [, name, value] = /^(--[a-z]+)=(.*)$/.exec(word) ?? /^(-[A-Za-z])(.+)$/.exec(word) ?? [];
  return name === undefined || value === undefined ? [word] : [name, value];
}

const refused = (why: string): CsiError => new CsiError("invalid-argument", `the parameter ${mkfsOptionsKey}: ${why}`);
