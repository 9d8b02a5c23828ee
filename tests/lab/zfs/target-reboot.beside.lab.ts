import { afterAll, beforeAll, expect, test } from "bun:test";
import { codeOf, status, type World } from "../../serve/world.ts";
import { guestPoolBelow, guestShell, guestTraces, leftInGuest, making, removing, sshLines } from "../beside.ts";
import { startCsimux } from "../rig.ts";
import { bootId, cutAt, cutNow, installCounting, type Moment, removeCounting, started } from "./power-cut.ts";
import { type ZfsDriver, zfsDrivers } from "./zfs-drivers.ts";

// A storage host loses its power while csimux makes or removes targets of LIO and nvmet, between the proof and the end of the change. After
// its start, what was saved is there, each call comes to its end, and a target without its zvol keeps no other call waiting.

// LAB_SEED: the same moments again.
const seed = Number(process.env["LAB_SEED"] ?? Date.now() % 1_000_000);
const limitMs = 2_400_000;
const marker = "/run/csimux-imported";
const savedFiles = ["/etc/rtslib-fb-target/saveconfig.json", "/etc/nvmet/config.json"] as const;
const foreign = ["iqn.2003-01.org.other:theirs", "nqn.2003-01.org.other:theirs"] as const;

/** The connection `marked` waits until its host says that it has restored its configuration. */
const connections = ["iscsi", "nvmeof", "marked"] as const;
type Connection = (typeof connections)[number];

const driverOf = (wanted: string): ZfsDriver => {
  const found = zfsDrivers.find(({ connection }) => connection === wanted);
  if (!found) throw new Error(`no driver for ${wanted}`);
  return found;
};

let before: ReadonlySet<string>;
let world: World;

/** Restores what nvmetcli has saved: what cannot come back is left out, as there. The port is an administrator's. */
const restoring = `import json, os
root = "/sys/kernel/config/nvmet/"
def put(path, value):
    try:
        with open(root + path, "w") as file:
            file.write(str(value))
    except OSError as error:
        print(path, error)
def folder(path):
    os.path.isdir(root + path) or os.mkdir(root + path)
with open("${savedFiles[1]}") as file:
    saved = json.load(file)
for each in saved["subsystems"]:
    place = "subsystems/%s" % each["nqn"]
    folder(place)
    for name, value in each["attr"].items():
        name == "allow_any_host" and put("%s/attr_%s" % (place, name), value)
    for space in each["namespaces"]:
        at = "%s/namespaces/%s" % (place, space["nsid"])
        folder(at)
        put(at + "/device_path", space["device"]["path"])
        space["enable"] and put(at + "/enable", 1)
for port in saved["ports"]:
    for name in port["subsystems"]:
        link = root + "ports/%s/subsystems/%s" % (port["portid"], name)
        os.path.lexists(link) or os.symlink(root + "subsystems/" + name, link)
`;

/** What an administrator does before anything else on a host for NVMe: the module and the port. */
const openPort = (): Promise<string> =>
  guestShell(`modprobe -a nvmet nvmet-tcp; port=/sys/kernel/config/nvmet/ports/1; [ -d $port ] || {
mkdir $port && cd $port && echo tcp >addr_trtype && echo ipv4 >addr_adrfam && echo 127.0.0.1 >addr_traddr && echo 4420 >addr_trsvcid; }`);

/** A target and a subsystem that are not csimux's, saved. */
const makeForeign = (): Promise<string> =>
  guestShell(
    `targetcli /iscsi create "$1" >/dev/null && targetcli saveconfig >/dev/null && mkdir -p /etc/nvmet && printf %s "$3" >"$2" && sync`,
    foreign[0],
    savedFiles[1],
    JSON.stringify({
      hosts: [],
      ports: [{ portid: 1, addr: { trtype: "tcp" }, subsystems: [foreign[1]] }],
      subsystems: [{ nqn: foreign[1], attr: { allow_any_host: "1" }, namespaces: [], allowed_hosts: [] }],
    }),
  );

beforeAll(async () => {
  before = await guestTraces();
  await openPort();
  await makeForeign();
  await guestShell(`touch ${marker}`);
  await installCounting();
  const ssh = await sshLines(["  keepaliveInterval: 5000", "  keepaliveCountMax: 3"]);
  const fileOf = (driver: string) => driverOf(driver).file({ lines: () => ssh });
  const marked = fileOf("nvmeof")
    .replaceAll("tank/nvmeof/", "tank/marked/")
    .replace("csimux:zfs", "csimux:marked")
    .replace("    ports: [1]", `    configIsImportedFilePath: ${marker}\n    ports: [1]`);
  const files = { iscsi: fileOf("iscsi"), nvmeof: fileOf("nvmeof"), marked };
  world = await startCsimux({ connections: files, flags: ["--health-interval=3600"] });
}, limitMs);

afterAll(async () => {
  expect(await world.end()).toEqual([]);
  await removeCounting();
  for (const each of connections) await guestShell('zfs destroy -r "tank/$1" 2>/dev/null || :', each);
  await guestShell(
    `targetcli /iscsi delete "$1" >/dev/null; targetcli saveconfig >/dev/null
cd /sys/kernel/config/nvmet; rm -f ports/1/subsystems/* "$3" ${marker}; rmdir subsystems/"$2" ports/1; :`,
    ...foreign,
    savedFiles[1],
  );
  expect(await leftInGuest(before)).toEqual([]);
}, limitMs);

/** The names of the targets that were made, by connection and volume. */
const names = new Map<string, string>();
const nameOf = (connection: Connection, volume: string): string => names.get(`${connection} ${volume}`) ?? "none";

/** Makes a volume, and remembers its target. */
async function make(connection: Connection, volume: string): Promise<void> {
  const { volumeContext } = await making(world, connection, volume);
  names.set(`${connection} ${volume}`, volumeContext["iqn"] ?? volumeContext["nqn"] ?? "none");
}

/** The names of all targets and subsystems that are saved. */
async function saved(): Promise<readonly string[]> {
  const [lio = "", nvmet = ""] = await Promise.all(savedFiles.map(file => guestShell('cat "$1"', file)));
  const targets = (JSON.parse(lio) as { readonly targets: readonly { readonly wwn: string }[] }).targets;
  const subsystems = (JSON.parse(nvmet) as { readonly subsystems: readonly { readonly nqn: string }[] }).subsystems;
  return [...targets.map(({ wwn }) => wwn), ...subsystems.map(({ nqn }) => nqn)].sort();
}

/** What nodes can reach: enabled targets with a LUN, and subsystems with an enabled namespace behind a port. */
async function served(): Promise<readonly string[]> {
  const text = await guestShell(`cd /sys/kernel/config
for each in target/iscsi/iqn.*; do
  [ "$(cat "$each"/tpgt_1/enable)" = 1 ] && [ -n "$(find "$each"/tpgt_1/lun/lun_0 -type l 2>/dev/null)" ] && echo "\${each##*/}"
done
for each in nvmet/ports/1/subsystems/*; do
  [ "$(cat "$each"/namespaces/1/enable 2>/dev/null)" = 1 ] && echo "\${each##*/}"
done; :`);
  return text.split("\n").filter(line => line !== "");
}

const everywhere = (work: (connection: Connection) => Promise<unknown>) => Promise.all(connections.map(work));

const move = (from: string, to: string) =>
  everywhere(each => guestShell('zfs rename "$1" "$2"', `tank/${each}/${from}`, `tank/${each}/${to}`));

const drawn = (row: number, below: number): number => (seed * 7919 + row * 104_729) % below;

const moments: readonly Moment[] = [
  { kind: "Lio", verb: "make", changes: drawn(1, 20) },
  { kind: "Nvmet", verb: "remove", changes: drawn(2, 6) },
  { kind: "Nvmet", verb: "make", changes: drawn(3, 10) },
  { kind: "Lio", verb: "remove", changes: drawn(4, 8) },
];

/** Lets the power go at the moment, or at the end of the work if that comes first, and the work continue after the start of the host. */
async function through(moment: Moment, work: () => Promise<unknown>, meanwhile: () => Promise<void>): Promise<void> {
  const boot = await bootId();
  await cutAt(moment);
  const ended = work();
  const settled = ended
    .catch(() => {})
    .then(async () => {
      if ((await bootId().catch(() => "")) === boot) await cutNow();
    });
  await Promise.race([settled, started(boot)]);
  await started(boot);
  await meanwhile();
  await ended;
}

test.each(moments.map(moment => [`${moment.changes} changes into ${moment.verb} of ${moment.kind}`, moment] as const))(
  "a host that loses its power %s comes back with all that was saved",
  async (title, moment) => {
    process.stderr.write(`LAB_SEED=${seed}: ${title}\n`);
    await everywhere(async each => {
      for (const name of ["kept", "lost", "gone"]) await make(each, name);
    });
    expect(await saved()).toEqual(
      [...foreign, ...connections.flatMap(each => ["kept", "lost", "gone"].map(name => nameOf(each, name)))].sort(),
    );
    await move("v/lost", "away");
    const isMaking = moment.verb === "make";
    const work = (each: Connection) => (isMaking ? make(each, "made") : removing(world, each, "gone"));
    const left = isMaking ? ["gone", "kept", "lost", "made"] : ["kept", "lost"];
    await through(
      moment,
      () => everywhere(work),
      async () => {
        const kept = new Set(await saved());
        const lost = ["kept", "lost"].flatMap(name => connections.map(each => nameOf(each, name)));
        expect([...foreign, ...lost].filter(name => !kept.has(name))).toEqual([]);
        // Without the file that says so, nothing is changed before the host has restored what was saved.
        expect(await codeOf(world.create("early", "marked", {}, 60_000))).toBe(status.unavailable);
        await openPort();
        await making(world, "nvmeof", "early");
        await removing(world, "nvmeof", "early");
        await guestShell('targetctl restore >/dev/null 2>&1; /usr/bin/python3 -c "$1"; touch "$2"', restoring, marker);
      },
    );
    const wanted = [...foreign, ...connections.flatMap(each => left.map(name => nameOf(each, name)))].sort();
    expect(await saved()).toEqual(wanted);
    // The target of a volume whose zvol is away cannot come back, and no other call waits for it.
    await everywhere(async each => {
      await making(world, each, "other");
      await removing(world, each, "other");
    });
    const lost = connections.map(each => nameOf(each, "lost"));
    expect((await served()).filter(name => lost.includes(name))).toEqual([]);
    await move("away", "v/lost");
    await everywhere(async each => {
      for (const name of ["kept", "lost"]) await making(world, each, name);
    });
    expect([await saved(), (await served()).filter(name => !foreign.some(each => each === name)).sort()]).toEqual([
      wanted,
      wanted.filter(name => !foreign.some(each => each === name)),
    ]);
    await everywhere(async each => {
      for (const name of ["kept", "lost", "gone", "made", "early"]) await removing(world, each, name);
    });
    expect([await saved(), await served()]).toEqual([[...foreign].sort(), []]);
    await everywhere(async each => expect(await guestPoolBelow(`tank/${each}/v`)).toEqual([]));
  },
  limitMs,
);
