import { afterEach, beforeEach, expect, test } from "bun:test";
import { rm, stat } from "node:fs/promises";
import { safeParse } from "valibot";
import { localHostpath, lustreClient, nfsClient, smbClient } from "../../../lib/drivers/directory/module.ts";
import type { Driver } from "../../../lib/drivers/driver.ts";
import type { DriverModule } from "../../../lib/drivers/module.ts";
import { codeOf } from "../../contract/driver-volumes.ts";
import { callWith, snapshotsOf, volumeOf } from "../../contract/rig.ts";
import { localPorts } from "../../fakes/ports.ts";
import { maxIdBytes, systemRunner, temporaryFolder } from "./directory-rig.ts";

const call = callWith();
let base = "";
beforeEach(async () => {
  base = await temporaryFolder();
});
afterEach(() => rm(base, { recursive: true, force: true }));

/** Parses a connection file's sections with the module's own schema and opens them. */
function opened(module: DriverModule, sections: object): Driver {
  const driver = module.names[0] ?? "";
  const parsed = safeParse(module.schema, sections);
  if (!parsed.success || !module.open) throw new Error(JSON.stringify(parsed.issues));
  const identity = { connection: "c1", driver, instanceId: undefined, maxIdBytes };
  return module.open(identity, parsed.output as never, localPorts(systemRunner));
}

const paths = () => ({ shareBasePath: base, controllerBasePath: base });

test("a local-hostpath section becomes a driver with its mode in octal and its owner", async () => {
  const section = { ...paths(), dirPermissionsMode: "0750", dirPermissionsUser: 0, dirPermissionsGroup: "0" };
  const driver = opened(localHostpath, { "local-hostpath": section });
  const { context } = await driver.create(volumeOf("a"), call);
  expect(context["path"]).toBe(`${base}/v/a`);
  expect((await stat(`${base}/v/a`)).mode & 0o7777).toBe(0o750);
});

test("the default snapshot method of the section is used", async () => {
  const section = { ...paths(), snapshots: { default_driver: "restic" } };
  const driver = opened(localHostpath, { "local-hostpath": section });
  await driver.create(volumeOf("a"), call);
  expect(await codeOf(snapshotsOf(driver).create("s", "a", {}, call))).toBe("invalid-argument");
});

test.each([
  ["nfs", nfsClient],
  ["smb", smbClient],
  ["lustre", lustreClient],
] as const)("a section %s needs its mount unless the file says otherwise", async (name, module) => {
  const strict = opened(module, { [name]: { shareHost: "nas", ...paths() } });
  expect(await codeOf(strict.create(volumeOf("a"), call))).toBe("unavailable");
  const loose = opened(module, { [name]: { shareHost: "nas", ...paths(), requireMount: false } });
  expect((await loose.create(volumeOf("a"), call)).context).toMatchObject({ server: "nas", node_attach_driver: name });
});
