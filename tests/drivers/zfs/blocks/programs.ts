import { afterEach } from "bun:test";
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { blockLists, usualPatience } from "../../../../lib/drivers/zfs/blocks/block-list.ts";
import { localRunner } from "../../../../lib/io/local.ts";
import { localHost } from "../../../../lib/io/local-host.ts";
import { dump, objects } from "../../../fakes/zfs/zstream.ts";

export const block = 16_384n;
/** The size of the zvol whose blocks are listed. */
export const size = 64n * block;

const folders: string[] = [];
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
});

/** Programs of a storage host: zfs prints a whole stream or a later one, and zstream what it reads. */
export function programs(texts: {
  readonly whole?: string;
  readonly later?: string;
  readonly zfs?: string;
  readonly zstream?: string;
  readonly patience?: Partial<typeof usualPatience>;
}) {
  const bin = mkdtempSync(join(tmpdir(), "csimux-blocks-"));
  folders.push(bin);
  writeFileSync(join(bin, "whole"), texts.whole ?? dump(...objects(size)));
  writeFileSync(join(bin, "later"), texts.later ?? "");
  const send = texts.zfs ?? `case " $* " in *" -i "*) cat '${bin}/later' ;; *) cat '${bin}/whole' ;; esac`;
  writeFileSync(join(bin, "zfs"), `#!/bin/sh\necho "$*" >>'${bin}/calls'\n${send}\n`);
  if (texts.zstream !== "absent") writeFileSync(join(bin, "zstream"), `#!/bin/sh\n${texts.zstream ?? "exec cat"}\n`);
  for (const name of ["zfs", "zstream"]) if (existsSync(join(bin, name))) chmodSync(join(bin, name), 0o755);
  const path = texts.zstream === "absent" ? `${bin}:/bin:/usr/bin` : `${bin}:/usr/sbin:/usr/bin:/sbin:/bin`;
  const host = localHost(localRunner({ env: { PATH: path } }));
  const patience = { ...usualPatience, ...texts.patience };
  const lists = blockLists(host, { zfs: ["zfs"], zpool: "zpool", privileged: [] }, patience);
  return { lists, calls: () => readFileSync(join(bin, "calls"), "utf8").trim().split("\n"), bin };
}
