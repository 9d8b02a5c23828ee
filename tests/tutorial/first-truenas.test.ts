import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { hasGoProgram } from "../../scripts/cluster/tools.ts";
import { type Double, startDouble } from "../fakes/truenas/double.ts";
import { makeAuthority, makeServer } from "../io/certificates.ts";
import { pageText, sectionsOf } from "./page.ts";
import { Reader } from "./reader.ts";

/** The roles that the page gives to the account. */
const roles = [...new Set(pageText("first-truenas").match(/`[A-Z]+(?:_[A-Z]+)+`/g))].map(each => each.slice(1, -1));
const gibibytes = (count: number): string => String(count * 1024 ** 3);

test("the tutorial for TrueNAS has these steps with commands, and names roles", () => {
  expect(sectionsOf("first-truenas").map(({ title }) => title.slice(0, 2))).toEqual([
    ...["2.", "3.", "4.", "5.", "6.", "7.", "8."],
  ]);
  expect(roles).toContain("SHARING_ISCSI_WRITE");
});

describe.if(hasGoProgram("kustomize"))("the tutorial for TrueNAS, run from top to bottom", () => {
  let double: Double;
  let reader: Reader;

  beforeAll(async () => {
    reader = await Reader.start("first-truenas");
    makeAuthority(reader.folder, "authority");
    const { cert, key } = makeServer(reader.folder, "authority");
    double = await startDouble({
      version: "25.10",
      tls: { cert: readFileSync(cert, "utf8"), key: readFileSync(key, "utf8") },
    });
    double.accounts.addKey("7-tutorial", roles, "csimux");
    reader.changes
      .set(/(?<=nas:|port: )443\b/g, String(double.port))
      .set("nas=nas.example.org", "nas=127.0.0.1")
      .set("key=1-put-the-key-here", "key=7-tutorial")
      .set("registry=registry.example.org", "registry=registry.lan");
  }, 600_000);
  afterAll(async () => {
    await reader.end();
    await double.close();
  });

  const datasets = () => Object.keys(double.state.datasets).filter(name => name.includes("/volumes/"));

  test("the account with the roles of the page passes the check, and csimux serves the connection", async () => {
    await reader.plays("2.");
    expect(await reader.plays("3.")).toContain("no problems");
    expect(await reader.plays("4.")).toMatch(/nas +good/);
  }, 180_000);

  test("a claim is a dataset with a quota and a share, a snapshot becomes a claim, and a claim grows", async () => {
    expect(await reader.plays("5.")).toContain("hello");
    expect(reader.cluster.contexts.get("notes")).toMatchObject({ node_attach_driver: "nfs", server: "127.0.0.1" });
    await reader.plays("6.");
    expect(datasets()).toEqual(["tank/k8s/nfs/volumes/pvc-notes", "tank/k8s/nfs/volumes/pvc-notes-restored"]);
    expect(double.state.datasets["tank/k8s/nfs/volumes/pvc-notes"]?.native).toMatchObject({ refquota: gibibytes(3) });
    expect(double.state.tables.nfs.map(each => each["networks"])).toEqual([["10.0.0.0/24"], ["10.0.0.0/24"]]);
  }, 180_000);

  test("a disk has a target that asks for CHAP, and nodes get the login", async () => {
    await reader.plays("7.");
    expect(double.state.tables.target.map(({ ["groups"]: groups }) => groups)).toEqual([
      [expect.objectContaining({ portal: 1, initiator: 1, authmethod: "CHAP", auth: 1 })],
    ]);
    const parameters = reader.cluster.objects.get("storageclass/disks")?.["parameters"];
    const login = reader.cluster.objects.get(`secret/${parameters["csi.storage.k8s.io/node-stage-secret-name"]}`);
    expect(login?.["stringData"]["node-db.node.session.auth.username"]).toBe("nodes");
  }, 180_000);

  test("nothing is left on TrueNAS at the end", async () => {
    await reader.plays("8.");
    const { nfs, target, extent } = double.state.tables;
    expect([datasets(), nfs, target, extent]).toEqual([[], [], [], []]);
  }, 180_000);
});
