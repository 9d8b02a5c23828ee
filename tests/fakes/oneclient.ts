import { chmod, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

/** The access token that the program takes. */
export const token = "MDAzM2xvY2F0aW9uIG9uZXpvbmU";

/** A oneclient(1) whose spaces are a folder. It takes one token, and keeps its arguments and environment. */
const script = (folder: string): string => `#!/bin/sh
PATH=/usr/sbin:/usr/bin:/sbin:/bin
echo "$*" >> ${folder}/calls
env >> ${folder}/environment
[ "$ONECLIENT_ACCESS_TOKEN" = "${token}" ] || { echo "Cannot connect to Onezone - invalid token: $ONECLIENT_ACCESS_TOKEN" >&2; exit 1; }
options=
while [ $# -gt 1 ]; do
  [ "$1" = -o ] && options=$2
  shift
done
if [ -c /dev/fuse ] && command -v bindfs > /dev/null; then
  exec bindfs -o "subtype=oneclient\${options:+,$options}" ${folder}/spaces "$1"
fi
exec mount -n --bind ${folder}/spaces "$1"
`;

/** The program in a folder of its own. */
export class FakeOneclient {
  readonly folder: string;
  /** To be put in front of PATH. */
  readonly bin: string;

  private constructor(folder: string) {
    this.folder = folder;
    this.bin = join(folder, "bin");
  }

  /** `folder` must not exist yet. */
  static async at(folder: string): Promise<FakeOneclient> {
    const fake = new FakeOneclient(folder);
    await mkdir(fake.bin, { recursive: true });
    await mkdir(join(folder, "spaces"));
    const program = join(fake.bin, "oneclient");
    await writeFile(program, script(folder));
    await chmod(program, 0o755);
    return fake;
  }

  /** The arguments of every mount so far. */
  async calls(): Promise<readonly string[]> {
    return (await this.#kept("calls")).split("\n").filter(line => line !== "");
  }

  /** The lines of the environments that it was started with. */
  environment(): Promise<string> {
    return this.#kept("environment");
  }

  #kept(file: string): Promise<string> {
    return readFile(join(this.folder, file), "utf8").catch(() => "");
  }
}
