import { type Access, type Capability, defaultFilesystem } from "./access.ts";
import { CsiError } from "./errors.ts";

/** The class parameter, and the entry of a volume's context, with options for mkfs. */
export const mkfsOptionsKey = "mkfsOptions";

/** The most characters that a class may give. */
const most = 512;

/** The form of each option's value. */
type Options = Readonly<Record<string, RegExp>>;

const size = "\\d{1,12}[kKmMgGsb]?";
const oneOf = (words: string) => new RegExp(`^(?:${words.replaceAll(" ", "|")})$`);
const listOf = (...forms: readonly string[]) => new RegExp(`^(?:${forms.join("|")})(?:,(?:${forms.join("|")}))*$`);
/** Keys with a number or a size as their value. */
const pairs = (keys: string) => listOf(`(?:${keys.replaceAll(" ", "|")})=${size}`);
const label = /^[A-Za-z0-9][A-Za-z0-9._-]{0,15}$/;

/**
 * mke2fs(8) and ext4(5). With the feature sparse_super2, the kernel grows no file system that is mounted (Linux 5.14,
 * fs/ext4/resize.c, ext4_resize_begin): an expanded volume could not be staged again. A "^" clears a feature.
 */
const ext: Options = {
  "-b": /^\d{4,5}$/,
  "-e": oneOf("continue remount-ro"),
  "-E": listOf("(?:stride|stripe_width|stripe-width|resize|lazy_itable_init|lazy_journal_init)=\\d+", "(?:no)?discard"),
  "-i": /^\d{3,9}$/,
  "-I": /^\d{3,5}$/,
  "-J": listOf("size=\\d+"),
  "-L": label,
  "-m": /^\d{1,2}(?:\.\d{1,3})?$/,
  "-N": /^\d{1,10}$/,
  "-O": listOf(
    "\\^?(?:64bit|casefold|dir_index|encrypt|extent|flex_bg|has_journal|huge_file)",
    "\\^?(?:large_dir|metadata_csum|project|quota|verity)",
  ),
  "-T": /^[a-z0-9]{1,16}$/,
};

/** mkfs.xfs(8). */
const xfs: Options = {
  "-b": pairs("size"),
  "-d": pairs("agcount agsize sunit swidth su sw"),
  "-i": pairs("size maxpct sparse nrext64"),
  "-l": pairs("size su sunit"),
  "-L": /^[A-Za-z0-9][A-Za-z0-9._-]{0,11}$/,
  "-m": pairs("bigtime crc finobt inobtcount reflink rmapbt"),
  "-n": pairs("size"),
  "-s": pairs("size"),
};

/** mkfs.btrfs(8), for one device. */
const btrfs: Options = {
  "-d": oneOf("single dup"),
  "-L": label,
  "-m": oneOf("single dup"),
  "-n": oneOf(size),
  "-O": listOf("\\^?(?:block-group-tree|extref|free-space-tree|no-holes|quota|skinny-metadata)"),
  "--csum": oneOf("crc32c xxhash sha256 blake2"),
  "--nodesize": oneOf(size),
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
 * The arguments of mkfs that a class gives in the parameter `mkfsOptions`, as one text with spaces: "-m 1 -E stride=4".
 * Only the usual options that shape the file system are possible; those that name another device, write no file system,
 * force, or set the identity would break the proofs of csimux. `type` is a file system, as `fs_type` has it. Throws
 * "invalid-argument", which names the first word that is not possible.
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
