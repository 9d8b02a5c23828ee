import { existsSync, readFileSync } from "node:fs";
import { mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { FakeProgram } from "./program.ts";

/** The licence and passphrase that the program knows; behind the licence stands the admin key. */
export const licence = "L123456789012345678901234".slice(0, 24);
export const adminLicence = `${licence}ADMINKEY`;
export const passphrase = "correct horse battery";
export const accessKey = "AKIDEXAMPLE";
export const secretKey = "s3cr3t/of+the=store";

/** What the program needs in its environment. */
export const environment: Readonly<Record<string, string>> = {
  OBJECTSTORE: "minio://",
  ENDPOINT: "https://s3.example.org",
  ACCESS_KEY: accessKey,
  SECRET_KEY: secretKey,
  OBJECTIVEFS_LICENSE: adminLicence,
  OBJECTIVEFS_PASSPHRASE: passphrase,
};

/**
 * A mount.objectivefs whose object store is a folder: `buckets/<bucket>/<file system>`. With FAKE_DIES_AT it is killed at
 * the n-th command that the file FAKE_DIES_LOG counts and at all that follow: before or after that took effect (FAKE_DIES_WHEN).
 */
const script = (folder: string): string => `#!/bin/sh
PATH=/usr/sbin:/usr/bin:/sbin:/bin
buckets=${folder}/buckets
echo "$*" >> ${folder}/calls
env >> ${folder}/environment
end() { [ "$dies" = after ] && kill -9 $$; exit "$1"; }
fail() { [ "$dies" = after ] && kill -9 $$; echo "$2" >&2; exit "$1"; }
if [ -n "$FAKE_DIES_AT" ]; then
  echo x >> "$FAKE_DIES_LOG"
  n=$(wc -l < "$FAKE_DIES_LOG")
  [ "$n" -gt "$FAKE_DIES_AT" ] && kill -9 $$
  [ "$n" -eq "$FAKE_DIES_AT" ] && dies=$FAKE_DIES_WHEN
  [ "$dies" = before ] && kill -9 $$
fi
[ -e ${folder}/answer ] && { cat ${folder}/answer >&2; end "$(cat ${folder}/code)"; }
[ "$ACCESS_KEY" = "${accessKey}" ] && [ "$SECRET_KEY" = "${secretKey}" ] || fail 77 "ERROR: AccessDenied"
[ -n "$OBJECTIVEFS_PASSPHRASE" ] || end 78
store=$OBJECTSTORE
case "$1" in
list)
  [ -e ${folder}/listing ] && { cat ${folder}/listing; end 0; }
  printf 'NAME\\tKIND\\tSNAP\\tREGION\\n'
  for bucket in "$buckets"/*; do
    printf '%s%s/\\tpool\\t-\\tus-east-1\\n' "$store" "\${bucket##*/}"
    for each in "$bucket"/*; do
      [ -d "$each" ] && printf '%s%s/%s\\tofs\\t-\\tus-east-1\\n' "$store" "\${bucket##*/}" "\${each##*/}"
    done
  done
  end 0 ;;
create)
  [ "$OBJECTIVEFS_LICENSE" = "${adminLicence}" ] || fail 64 "ERROR: passphrase has to be verified"
  [ -d "$buckets/$3" ] && fail 1 "ERROR: filesystem already exists"
  mkdir -p "$buckets/\${3%%/*}"
  mkdir "$buckets/$3" 2>/dev/null || fail 1 "ERROR: filesystem already exists"
  end 0 ;;
destroy)
  read -r answer
  [ "$answer" = y ] || fail 1 "ERROR: not confirmed"
  [ -d "$buckets/$2" ] || { echo "$2 does not look like an ObjectiveFS filesystem"; end 68; }
  rm -rf "$buckets/$2"
  end 0 ;;
esac
options=
[ "$1" = -o ] && { options=$2; shift 2; }
[ "\${#OBJECTIVEFS_LICENSE}" -gt 24 ] && end 64
[ "$OBJECTIVEFS_PASSPHRASE" = "${passphrase}" ] || end 65
[ -d "$buckets/$1" ] || fail 66 "ERROR: filesystem does not exist"
if [ -c /dev/fuse ] && command -v bindfs > /dev/null; then
  bindfs -o "subtype=objectivefs\${options:+,$options}" "$buckets/$1" "$2" || exit 1
else
  mount -n --bind "$buckets/$1" "$2" || exit 1
  case ",$options," in *,ro,*) mount -n -o remount,bind,ro "$2" || exit 1 ;; esac
fi
end 0
`;

/** The program in a folder of its own, and its object store. */
export class FakeObjectiveFs {
  readonly folder: string;
  /** To be put in front of PATH. */
  readonly bin: string;
  readonly #program: FakeProgram;

  private constructor(program: FakeProgram) {
    this.folder = program.folder;
    this.bin = program.bin;
    this.#program = program;
  }

  /** `folder` must not exist yet. */
  static async at(folder: string): Promise<FakeObjectiveFs> {
    const program = await FakeProgram.at(folder, "mount.objectivefs", script(folder));
    await mkdir(join(folder, "buckets"));
    return new FakeObjectiveFs(program);
  }

  /** The environment that kills the program at its n-th command, and whether that has happened. */
  dying(step: number, when: "before" | "after") {
    const log = join(this.folder, `dies-${crypto.randomUUID()}`);
    return {
      env: { FAKE_DIES_AT: `${step}`, FAKE_DIES_WHEN: when, FAKE_DIES_LOG: log },
      dead: () => existsSync(log) && readFileSync(log, "utf8").length / 2 >= step,
    };
  }

  /** From now on every command fails with this code and these words, before it does anything. */
  async answer(code: number, words: string): Promise<void> {
    await writeFile(join(this.folder, "code"), `${code}`);
    await writeFile(join(this.folder, "answer"), words === "" ? "" : `${words}\n`);
  }

  /** From now on a listing is this text. */
  async listing(text: string): Promise<void> {
    await writeFile(join(this.folder, "listing"), text);
  }

  /** Makes a file system that is not of csimux. */
  async foreign(bucket: string, filesystem: string): Promise<void> {
    await mkdir(join(this.folder, "buckets", bucket, filesystem), { recursive: true });
  }

  /** Where the content of a file system lies. */
  place(bucket: string, filesystem: string): string {
    return join(this.folder, "buckets", bucket, filesystem);
  }

  /** The file systems of a bucket. */
  async filesystems(bucket: string): Promise<readonly string[]> {
    return (await readdir(join(this.folder, "buckets", bucket)).catch(() => [])).sort();
  }

  /** The arguments of every command so far. */
  calls(): Promise<readonly string[]> {
    return this.#program.calls();
  }

  /** The lines of the environments that it was started with. */
  environment(): Promise<string> {
    return this.#program.environment();
  }
}
