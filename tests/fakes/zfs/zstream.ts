import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";

// Lines of `zstream dump -v` (OpenZFS 2.1.11, cmd/zstream/zstream_dump.c, zstream_do_dump), for a stream of a zvol, whose data is object 1 and
// whose properties are object 2 (include/sys/zvol.h). The order of the records: module/zfs/dmu_send.c, dump_dnode, dump_free and do_dump.

const noSalt = `salt = ${"0".repeat(16)} iv = ${"0".repeat(24)} mac = ${"0".repeat(32)}`;

export const begin = `BEGIN record
\thdrtype = 1
\tfeatures = 420004
\tmagic = 2f5bacbac
\tcreation_time = 6a2b0c1d
\ttype = 3
\tflags = 0x4
\ttoguid = 7c2c1f6a0c1f5e21
\tfromguid = 0
\ttoname = tank/k/v/pvc-1@s
\tpayloadlen = 0
`;

export const written = (offset: bigint, size: bigint, object = 1): string =>
  `WRITE object = ${object} type = 23 checksum type = 7 compression type = 15 flags = 0 offset = ${offset} logical_size = ${size} ` +
  `compressed_size = 512 payload_size = 512 props = 802070001001f ${noSalt}`;

export const embedded = (offset: bigint, length: bigint): string =>
  `WRITE_EMBEDDED object = 1 offset = ${offset} length = ${length} toguid = 7c2c1f6a0c1f5e21 comp = 15 etype = 0 lsize = ${length} psize = 40`;

export const byReference = (offset: bigint, length: bigint): string =>
  `WRITE_BYREF object = 1 checksum type = 7 props = 802070001001f offset = ${offset} length = ${length} toguid = 1 refguid = 1 refobject = 1 refoffset = 0`;

/** A length of -1: down to the end of the object. */
export const freed = (offset: bigint, length: bigint, object = 1): string =>
  `FREE object = ${object} offset = ${offset} length = ${length}`;

/** The objects of a zvol, whose data ends at an offset. */
export const objects = (end: bigint): readonly string[] => [
  ...["FREEOBJECTS firstobj = 0 numobjs = 1", object(1), freed(end, -1n), object(2), freed(512n, -1n, 2)],
  "FREEOBJECTS firstobj = 3 numobjs = 29",
];

const object = (number: number): string =>
  `OBJECT object = ${number} type = 23 bonustype = 0 blksz = 16384 bonuslen = 0 dn_slots = 1 raw_bonuslen = 0 flags = 0 maxblkid = 0 indblkshift = 0 nlevels = 0 nblkptr = 0`;

export const end = "END checksum = 1de2e9c1d2/72a0a64df1c0f/11b8ef8e0ae1c0ba/e4f3f4b8db3ae7e1";
export const summary = "SUMMARY:\n\tTotal DRR_BEGIN records = 1 (0 bytes)\n\tTotal DRR_END records = 1 (0 bytes)";

/** A whole stream. */
export const dump = (...records: readonly string[]): string => `${[begin, ...records, end, summary].join("\n")}\n`;

/**
 * Puts a zstream into a folder of programs. It reads its stream and prints what the files "whole" and "later" of the folder hold: the
 * latter for one that begins at another snapshot, which the model of zfs writes into the head of a stream (stream.ts).
 */
export function putZstream(bin: string): void {
  const text = `#!/bin/sh
[ "$*" = "dump -v" ] || exit 2
case $(cat) in *'"from":'*) cat '${bin}/later' ;; *) cat '${bin}/whole' ;; esac
`;
  writeFileSync(join(bin, "zstream"), text);
  chmodSync(join(bin, "zstream"), 0o755);
}

/** Puts a zstream that prints what its stream holds, a zvol of the model in `folder` (zstream-main.ts). */
export function putModelledZstream(bin: string, folder: string): void {
  const program = join(import.meta.dir, "zstream-main.ts");
  const text = `#!/bin/sh\n[ "$*" = "dump -v" ] || exit 2\nexec '${process.execPath}' '${program}' '${folder}'\n`;
  writeFileSync(join(bin, "zstream"), text);
  chmodSync(join(bin, "zstream"), 0o755);
}
