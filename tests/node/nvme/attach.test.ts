import { expect, test } from "bun:test";
import { existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import { CsiError } from "../../../lib/core/errors.ts";
import { MountTable } from "../../../lib/node/mount/mount-table.ts";
import { OpenedSessions } from "../../../lib/node/state/record-folder.ts";
import { later } from "../../waiting.ts";
import { FakeVolume } from "../fake-volume.ts";
import { callOf, codeOf, writer } from "../lab.ts";
import { FakeHost, nqn } from "./fake-host.ts";

const one = "10.0.0.1:4420";
const two = "10.0.0.2:4420";

const volume = (id = "a", more: Readonly<Record<string, string>> = {}) =>
  new FakeVolume(id, { node_attach_driver: "nvmeof", nqn, nsid: "1", transport: `tcp://${one}`, ...more });
const both = { transports: `tcp://${one},tcp://10.0.0.2` };

test("a namespace is attached once, is the same disk when attached again, and leaves nothing", async () => {
  using host = new FakeHost(one);
  const a = volume();
  const device = await a.attach(host);
  const proof = { "class/block/nvme0n1/wwid": "uuid.1" };
  const path = `${host.root}/dev/nvme0n1`;
  expect(device).toEqual({ kind: "device", path, number: "259:1", identity: "uuid.1", proof });
  expect(await a.attach(host)).toEqual(device);
  expect(host.controllers).toEqual(["nvme0"]);
  for (let times = 0; times < 2; times++) await a.detach(host);
  expect(host.controllers).toEqual([]);
});

test("every path is connected, and a dead one does no harm", async () => {
  using host = new FakeHost(one, two);
  const a = volume("a", { transports: `tcp://10.0.0.3,${both.transports}` });
  await a.attach(host);
  expect(host.controllers).toEqual(["nvme0", "nvme1"]);
  await a.attach(host);
  expect(host.controllers.length).toBe(2);
  await a.detach(host);
  expect(host.controllers).toEqual([]);
});

test("a node uses its host's identity, or one derived from its machine-id only", async () => {
  const identities = new Set<string>();
  for (const machine of ["0", "1", "1"]) {
    using host = new FakeHost(one);
    host.write("etc/machine-id", `${machine.repeat(32)}\n`);
    await volume().attach(host);
    identities.add(/hostnqn=[^,]+,hostid=[^,]+/.exec(host.asked[0] ?? "")?.[0] ?? "");
  }
  expect(identities.size).toBe(2);
  using host = new FakeHost(one);
  const id = "11111111-2222-3333-4444-555555555555";
  host.write("etc/nvme/hostnqn", "nqn.2014-08.org.nvmexpress:uuid:own\n");
  host.write("etc/nvme/hostid", `${id}\n`);
  await volume().attach(host);
  expect(host.asked[0]).toContain(`hostnqn=nqn.2014-08.org.nvmexpress:uuid:own,hostid=${id}`);
});

test("a secret reaches the kernel, but no command line", async () => {
  using host = new FakeHost(one);
  host.secret = "DHHC-1:00:c2VjcmV0:";
  expect(await codeOf(volume().attach(host))).toBe("unauthenticated");
  expect(await codeOf(volume().attach(host, { "dhchap-secret": "a,traddr=b" }))).toBe("invalid-argument");
  await volume().attach(host, { "dhchap-secret": host.secret });
  expect(host.ran.filter(line => line.includes("DHHC"))).toEqual([]);
});

test("options of a transport are named as in nvme connect", async () => {
  using host = new FakeHost(one);
  const more = { transport: `tcp://${one}?nr-io-queues=2&ctrl-loss-tmo=60&hdr-digest` };
  await volume("a", more).attach(host);
  expect(host.asked[0]).toMatch(/,nr_io_queues=2,ctrl_loss_tmo=60,hdr_digest$/);
});

test.each([
  { nqn: "nqn.2005-10.org.example:a,traddr=b" },
  { nsid: "0" },
  { nsid: "1;2" },
  { transport: "" },
  { transport: "udp://10.0.0.1" },
  { transport: "tcp://-a" },
  { transport: "tcp://a?concat=b" },
  { transport: "tcp://a?nr-io-queues=1%2C2" },
])("a volume context with %p is refused before any program runs", async more => {
  using host = new FakeHost(one);
  expect(await codeOf(volume("a", more as never).attach(host))).toBe("invalid-argument");
  expect(host.ran).toEqual([]);
});

test("a namespace of another storage system, whose subsystem has the same name, is not taken for the volume", async () => {
  using host = new FakeHost(one, two);
  host.elsewhere.add(two);
  await volume().attach(host);
  const other = new FakeVolume("b", { node_attach_driver: "nvmeof", nqn, nsid: "1", transport: `tcp://${two}` });
  const limited = callOf(AbortSignal.timeout(300));
  const wanted = { ...other, publishContext: {}, capability: writer, readonly: false, table: new MountTable([]) };
  expect(await codeOf(host.attacher().attach(wanted, other.note, limited))).toBe("unavailable");
  await other.detach(host);
  expect(await volume().attach(host)).toMatchObject({ path: `${host.root}/dev/nvme0n1` });
});

test("another namespace of the same subsystem keeps the connections", async () => {
  using host = new FakeHost(one, two);
  host.namespaces.set("2", 8);
  const [a, b] = [volume("a", both), volume("b", { ...both, nsid: "2" })];
  await a.attach(host);
  await b.attach(host);
  await a.detach(host, b);
  expect(host.controllers.length).toBe(2);
  await b.detach(host);
  expect(host.controllers).toEqual([]);
});

test("a connection that csimux did not make stays", async () => {
  using host = new FakeHost(one, two);
  host.foreign(one);
  const a = volume("a", both);
  await a.attach(host);
  expect(host.controllers.length).toBe(2);
  await a.detach(host);
  expect(host.controllers).toEqual(["nvme0"]);
});

test("a connection that the host made after a restart of the machine stays", async () => {
  using host = new FakeHost(one);
  const a = volume();
  await a.attach(host);
  host.boot("second");
  host.foreign(one);
  await a.detach(host);
  expect(host.controllers.length).toBe(1);
});

test("a connection that is lost and may come back is waited for; no second one is made next to it", async () => {
  using host = new FakeHost(one);
  host.foreign(one);
  host.become("nvme0", "connecting");
  let back = false;
  // After the first looks, which are 50 ms apart.
  later(() => {
    back = true;
    host.become("nvme0", "live");
  }, 100);
  expect(await volume().attach(host)).toMatchObject({ path: `${host.root}/dev/nvme0n1` });
  expect([back, host.controllers, host.asked]).toEqual([true, ["nvme0"], []]);
});

test("a namespace that appears late, or grows late, is waited for", async () => {
  using host = new FakeHost(one);
  host.namespaces.clear();
  host.before = line => {
    if (line.includes("rescan_controller")) host.namespaces.set("1", host.namespaces.has("1") ? 16 : 8);
  };
  const a = volume();
  await a.attach(host);
  expect(await a.grown(host, 16n << 20n)).toBe(16n << 20n);
});

test("a detach that fails over one path ends after the other one, whose end would surprise the next attach", async () => {
  using host = new FakeHost(one, two);
  const a = volume("a", both);
  await a.attach(host);
  const [asked, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const run = host.run.bind(host);
  host.run = async command => {
    const path = command.argv[1] ?? "";
    if (path.includes("nvme0/delete")) throw new CsiError("unavailable", "cut");
    if (path.includes("nvme1/delete")) {
      asked.resolve();
      await gate.promise;
    }
    return run(command);
  };
  let ended: number = 0;
  const detached = codeOf(a.detach(host)).finally(() => ended++);
  await asked.promise;
  for (let turn = 0; turn < 100; turn++) await new Promise(setImmediate);
  expect(ended).toBe(0);
  gate.resolve();
  expect([await detached, host.controllers]).toEqual(["unavailable", ["nvme0"]]);
});

test("after an attach or detach interrupted at any step, a retry leaves nothing", async () => {
  for (let cut = 0, reached = true; reached; cut++) {
    using host = new FakeHost(one, two);
    const a = volume("a", both);
    let count = 0;
    host.before = () => {
      if (count++ === cut) throw new CsiError("unavailable", "cut");
    };
    await codeOf(a.attach(host));
    if (count <= cut) await codeOf(a.detach(host));
    reached = count > cut;
    host.before = () => {};
    if (cut % 2 === 0) expect(await codeOf(a.attach(host))).toBe("ok");
    await a.detach(host);
    expect({ cut, left: host.controllers }).toEqual({ cut, left: [] });
  }
});

test("a path that was lost, or dead when the volume was attached, is connected later and closed with the volume", async () => {
  using host = new FakeHost(one);
  const a = volume("a", both);
  await a.attach(host);
  expect(await a.restore(host)).toEqual([]);
  host.alive.add(two);
  expect(await a.restore(host)).toEqual(["tcp://10.0.0.2:4420"]);
  host.boot("first");
  expect(await a.restore(host)).toEqual(["tcp://10.0.0.1:4420", "tcp://10.0.0.2:4420"]);
  expect(await a.restore(host)).toEqual([]);
  await a.detach(host);
  expect(host.controllers).toEqual([]);
});

test("a path that is still being connected when the volume is detached is waited for, and leaves no connection that nothing closes", async () => {
  using host = new FakeHost(one, two);
  host.graceMs = 1;
  const connected = Promise.withResolvers<void>();
  host.before = line => line.includes("nvme-fabrics") && host.controllers.length === 1 && connected.promise;
  const attacher = host.attacher();
  const a = volume("a", both);
  await a.attach({ attacher: () => attacher });
  expect(host.controllers).toEqual(["nvme0"]);
  // The path answers in the middle of the detachment.
  later(() => connected.resolve(), 50);
  await a.detach({ attacher: () => attacher });
  await connected.promise;
  expect(host.controllers).toEqual([]);
});

const recorded = ({ root }: FakeHost) => new OpenedSessions({ opened: join(root, "opened"), proc: join(root, "proc") });

test.each(["gone.invalid", "localhost"])(
  "a connection that was made when its name %s had another address is closed with the volume",
  async name => {
    using host = new FakeHost(one);
    host.foreign(one);
    host.foreign(two);
    await recorded(host).add(`nvmeof ${nqn} tcp://${name}:4420`, "10.0.0.1");
    await volume("a", { transport: `tcp://${name}:4420` }).detach(host);
    expect(host.controllers).toEqual(["nvme1"]);
  },
);

test("a connection whose name cannot be resolved, and whose address nothing records, is not reported as closed", async () => {
  using host = new FakeHost(one);
  host.foreign(one);
  const key = `nvmeof ${nqn} tcp://gone.invalid:4420`;
  await recorded(host).add(key);
  const a = volume("a", { transport: "tcp://gone.invalid:4420" });
  expect([await codeOf(a.detach(host)), await recorded(host).has(key)]).toEqual(["unavailable", "now"]);
  host.boot("first");
  expect([await codeOf(a.detach(host)), await recorded(host).has(key)]).toEqual(["ok", undefined]);
});

test("each address at which a connection was made is recorded until the next start of the machine", async () => {
  using host = new FakeHost(one);
  await volume().attach(host);
  const key = `nvmeof ${nqn} tcp://${one}`;
  await recorded(host).add(key, "10.0.0.7");
  expect(await recorded(host).addresses(key)).toEqual(["10.0.0.1", "10.0.0.7"]);
  host.boot("second");
  expect(await recorded(host).addresses(key)).toEqual([]);
});

test("without native multipath, a map that has lost all paths is removed with the volume", async () => {
  using host = new FakeHost(one);
  host.write("sys/module/nvme_core/parameters/multipath", "N\n");
  host.write("proc/net/unix", "@/org/kernel/linux/storage/multipathd\n");
  const map = join(host.root, "sys/class/block/dm-0");
  host.before = line => {
    if (line.startsWith("multipathd add")) host.write("sys/class/block/nvme0n1/holders/dm-0", "");
    if (line.startsWith("multipath -f")) rmSync(map, { recursive: true });
  };
  host.write("sys/class/block/dm-0/dm/uuid", "mpath-uuid.1\n");
  host.write("sys/class/block/dm-0/dm/name", "mpatha\n");
  const a = volume();
  expect((await a.attach(host)).path).toBe(join(host.root, "dev/dm-0"));
  host.boot("first");
  await a.detach(host);
  expect([existsSync(map), host.controllers]).toEqual([false, []]);
});
