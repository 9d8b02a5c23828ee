import { readFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { guidOf } from "./content.ts";
import { Pools } from "./pool.ts";
import { dump, freed, objects, written } from "./zstream.ts";

// The program zstream for streams of zvols of the model (stream.ts), whose content is the file "data": the first word is the folder of its
// pools. It prints what a stream of that content holds: WRITE for blocks with data, FREE for blocks that had data, and the end of the data.

const [folder = ""] = process.argv.slice(2);
const lines = readFileSync(0, "latin1").trimEnd().split("\n");
const head = JSON.parse(lines[0] ?? "") as { from?: string; properties: { volblocksize?: string } };
const block = Number(head.properties.volblocksize ?? 16_384);
const target = Buffer.from(JSON.parse(lines.at(-2) ?? "{}").data ?? "", "base64");
const base = head.from === undefined ? undefined : contentOf(head.from);

const count = Math.ceil(Math.max(target.length, base?.length ?? 0) / block);
const at = (content: Buffer, number: number) => content.subarray(number * block, (number + 1) * block);
const isData = (content: Buffer, number: number) => at(content, number).some(byte => byte !== 0);
const numbers = Array.from({ length: count }, (_, number) => number);
const end = (numbers.findLast(number => isData(target, number)) ?? -1) + 1;
const changed = base ? numbers.filter(number => !at(target, number).equals(at(base, number))) : numbers;
const records = changed
  .filter(number => number < end)
  .map(number => (isData(target, number) ? written : freed)(BigInt(number) * BigInt(block), BigInt(block)));
writeSync(1, dump(...objects(BigInt(end) * BigInt(block)), ...records));

/** What a snapshot holds that is known by its guid. */
function contentOf(guid: string): Buffer {
  const pools = new Pools(folder);
  const snapshot = pools.all().find(each => each.type === "snapshot" && guidOf(each) === guid);
  if (!snapshot) throw new Error(`there is no snapshot ${guid}`);
  return readFileSync(join(pools.place(snapshot), "data"));
}
