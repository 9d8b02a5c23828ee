import type { Driver } from "../../lib/drivers/driver.ts";
import { modules } from "../../lib/drivers/index.ts";
import type { DriverModule } from "../../lib/drivers/module.ts";
import { localRunner } from "../../lib/io/local.ts";
import { localHost } from "../../lib/io/local-host.ts";
import { byDriver, gist, read } from "../../tests/drivers/example-files.ts";
import { localPorts } from "../../tests/fakes/ports.ts";
import { type Generated, partsOf } from "./generated.ts";

/** The driver of a module, opened with its example. Opening does no I/O. */
function opened({ names: [name = ""], open }: DriverModule): Driver {
  const text = byDriver.get(name) ?? "";
  const { config } = read(text);
  if (!config) throw new Error(`the example of ${name} is missing or not valid: ${gist(text).join(", ")}`);
  const identity = { connection: name, driver: name, instanceId: undefined, maxIdBytes: 100 };
  const runner = localRunner({ env: {} });
  return open(identity, config.settings as never, localPorts(runner, localHost(runner)));
}

/** What the controller does for a driver's volumes, in words. */
function abilities({ facts }: DriverModule, driver: Driver): string {
  const { clones, inline } = driver;
  if (inline) return "none: pods describe their volumes and name the connection in `volumeAttributes`";
  if (!facts.provisions) return "none: you describe the volumes";
  const words: readonly (readonly [string, unknown])[] = [
    ["create, delete", true],
    ["expand", driver.expand],
    ["snapshot", driver.snapshots],
    ["restore", clones?.from.includes("snapshot")],
    ["clone", clones?.from.includes("volume")],
    ["group snapshots", driver.groupSnapshots],
    ["properties", driver.modify],
    ["list", driver.inventory],
    ["capacity", driver.capacity],
    ["health", driver.health],
  ];
  return words.flatMap(([word, present]) => (present ? [word] : [])).join(", ");
}

/** Where a driver was tested and the page of its storage, by the beginning of its name; the first that fits counts. */
const storages: readonly (readonly [beginning: RegExp, testedOn: string, page: string])[] = [
  [/^local-/, "a real machine", "folders"],
  [/^node-manual/, "nodes with real servers in the lab, by the same attributes", "node-manual"],
  [/^zfs-local-ephemeral-/, "a model of ZFS", "zfs-local"],
  [/^lustre-/, "a folder in place of the mount; no real Lustre", "folders"],
  [/^(?:nfs|smb)-/, "real servers in the lab", "folders"],
  [/^zfs-generic-nvmeof/, "real ZFS and nvmet in the lab; SPDK: a double", "zfs"],
  [/^zfs-local-/, "real ZFS in the lab", "zfs-local"],
  [/^zfs-/, "real ZFS and servers in the lab", "zfs"],
  [/^freenas-api-/, "a double held to the models that TrueNAS publishes, 24.10 to 26", "truenas"],
  [/^freenas-/, "the double of `freenas-api-*`, and one of ZFS over ssh", "truenas"],
  [/^synology-/, "a double on which Synology's own driver works, too", "synology"],
  [/^objectivefs/, "a double of its program", "objectivefs"],
];

function storageOf({ names: [name = ""] }: DriverModule): { readonly testedOn: string; readonly page: string } {
  const found = storages.find(([beginning]) => beginning.test(name));
  if (!found) throw new Error(`scripts/generate/driver-table.ts does not say where ${name} was tested`);
  return { testedOn: found[1], page: `examples/guide/storage/${found[2]}.md` };
}

/** The row of neighbours in the index that differ in their names and protocols alone. */
interface Row {
  readonly page: string;
  readonly names: readonly string[];
  readonly protocols: readonly string[];
  readonly rest: string;
}

function withRow(rows: readonly Row[], module: DriverModule): readonly Row[] {
  const { protocol, local } = module.facts;
  const name = `\`${module.names[0]}\``;
  const by = protocol ? `\`${protocol}\`` : "any, by `node_attach_driver`";
  const { testedOn, page } = storageOf(module);
  const rest = `${local ? "the node that created them" : "any node"} | ${abilities(module, opened(module))} | ${testedOn}`;
  const last = rows.at(-1);
  if (last?.rest !== rest) return [...rows, { page, names: [name], protocols: [by], rest }];
  const protocols = [...new Set([...last.protocols, by])];
  return [...rows.slice(0, -1), { page, names: [...last.names, name], protocols, rest }];
}

/** The table of drivers in README.md. */
export function driverTable(): Promise<Generated> {
  const rows = modules
    .reduce<readonly Row[]>(withRow, [])
    .map(
      ({ page, names, protocols, rest }) => `| [${names.join(", ")}](${page}) | ${protocols.join(", ")} | ${rest} |\n`,
    );
  const head =
    "| `driver:` | Protocol | Volumes are used by | Controller | Tested on |\n| --- | --- | --- | --- | --- |\n";
  return partsOf("README.md", [`\n${head}${rows.join("")}\n`]);
}
