import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { FakeProgram } from "./program.ts";

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

/** The program in a folder of its own, which must not exist yet. */
export async function fakeOneclient(folder: string): Promise<FakeProgram> {
  const program = await FakeProgram.at(folder, "oneclient", script(folder));
  await mkdir(join(folder, "spaces"));
  return program;
}
