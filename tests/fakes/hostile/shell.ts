/**
 * A storage host that answers a login as `ssh host /bin/sh` does and then does what it should not: run with the name of a form.
 * It reads the tag of markers from what it is given to run, as any host can.
 */

export {};

const form = process.argv[2] ?? "";
const chunk = Buffer.alloc(1 << 20, "1");
let seen = "";

const write = (stream: NodeJS.WriteStream, data: string | Uint8Array): Promise<void> =>
  new Promise(resolve => void stream.write(data, () => resolve()));

async function forever(stream: NodeJS.WriteStream, data: string | Uint8Array): Promise<never> {
  for (;;) await write(stream, data);
}

async function greet(tag: string): Promise<void> {
  if (form === "greeting: marker without end") {
    await write(process.stdout, `\n${tag}:`);
    await forever(process.stdout, chunk);
  }
  if (form === "greeting: endless noise") await forever(process.stdout, chunk);
  if (form === "greeting: endless stderr") await forever(process.stderr, chunk);
  if (form === "greeting: endless markers") await forever(process.stdout, `${tag}:1\n`.repeat(10_000));
  await write(process.stdout, `\n${tag}:100\n${tag}:end\n`);
  await write(process.stderr, `${tag}:0\n${tag}:end\n`);
  if (form === "noise while nothing runs") await forever(process.stdout, chunk);
}

/** What zfs never prints when it is asked for type and guid below tank/v (zfs-get(8), zfs-list(8)). */
const lists: Readonly<Record<string, string>> = {
  "rows: without cells": "no row of zfs\n",
  "rows: of another dataset": "tank/w/a\ttype\tfilesystem\t-\ntank/w/a\tguid\t1\t-\n",
  "rows: again and again": "tank/v/a\ttype\tfilesystem\t-\ntank/v/a\tguid\t1\t-\n",
  "rows: a line without end": "x",
  "names: again and again": "tank/v/a\n",
  "names: of another dataset": "tank/w/a\n",
};

async function run(tag: string): Promise<void> {
  const line = lists[form];
  if (line !== undefined) await forever(process.stdout, line.repeat(10_000));
  if (form === "stdout: marker without end") {
    await write(process.stdout, `${tag}:`);
    await forever(process.stdout, chunk);
  }
  if (form === "stderr: marker without end") {
    await write(process.stderr, `${tag}:`);
    await forever(process.stderr, chunk);
  }
  if (form === "endless markers") await forever(process.stdout, `${tag}:0\n`.repeat(10_000));
  if (form === "endless markers on stderr") await forever(process.stderr, `${tag}:0\n`.repeat(10_000));
  if (form === "endless stdout") await forever(process.stdout, chunk);
  if (form === "endless stderr") await forever(process.stderr, chunk);
  await write(process.stdout, `${tag}:0\n${tag}:end\n`);
  await write(process.stderr, `${tag}:0\n${tag}:end\n`);
  if (form === "noise after the end") await forever(process.stdout, chunk);
}

let greeted = false;
for await (const data of process.stdin) {
  seen += String(data);
  // The last line of a greeting and of a script is the one that writes the marker "end" to stderr.
  const tag = /printf '[^\n]*(csimux-[0-9a-f]{32}):end\\n' >&2\n/.exec(seen)?.[1];
  if (tag === undefined) continue;
  seen = "";
  if (greeted) await run(tag);
  else await greet(tag);
  greeted = true;
}
