import { afterEach, beforeEach, expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseAllDocuments, stringify } from "yaml";
import { build } from "../../scripts/build.ts";

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "csimux-takeover-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const out = () => join(folder, "out");
const notes = () => readFileSync(join(out(), "NOTES.md"), "utf8");

const login = { protocol: "https", host: "nas.lan", port: 443, username: "root", password: "x" };
const api = {
  csiDriver: { name: "org.democratic-csi.api" },
  driver: {
    config: {
      driver: "freenas-api-nfs",
      httpConnection: login,
      zfs: { datasetParentName: "tank/vols", detachedSnapshotsDatasetParentName: "tank/snaps" },
      nfs: { shareHost: "nas.lan", shareAllowedNetworks: ["10.0.0.0/24"] },
    },
  },
};
const mounting = {
  csiDriver: { name: "org.democratic-csi.share" },
  driver: {
    config: {
      driver: "nfs-client",
      nfs: { shareHost: "nas2.lan", shareBasePath: "/k8s", controllerBasePath: "/storage/nas" },
    },
  },
};

/** Takes these values over, the first from standard input. Returns the exit code with standard output. */
async function takenOver(first: object, ...others: readonly object[]) {
  const files = others.map((values, index) => {
    const file = join(folder, `${index}.yaml`);
    writeFileSync(file, stringify(values));
    return file;
  });
  const values = ["-", ...files].flatMap(file => ["--values", file]);
  const args = ["takeover", "--out", out(), "--image", "example.org/csimux:1", ...values];
  const { status, stdout } = spawnSync(await build(), args, { encoding: "utf8", input: stringify(first) });
  return [status, stdout];
}

interface Container {
  readonly name: string;
  readonly securityContext: object;
  readonly volumeMounts: readonly { readonly name: string }[];
}

function controller() {
  const [deployment] = parseAllDocuments(readFileSync(join(out(), "controller.yaml"), "utf8"))
    .map(each => each.toJS())
    .filter(({ kind }) => kind === "Deployment");
  const { securityContext, containers, volumes } = deployment.spec.template.spec;
  return { securityContext, containers: containers as readonly Container[], volumes };
}

const passes = expect.stringMatching(/^no problems in \d files$/m);

test("a takeover gives the controller no rights on its node, like the chart of democratic-csi", async () => {
  expect(await takenOver(api)).toEqual([0, passes]);
  const { securityContext, containers, volumes } = controller();
  expect(securityContext).toEqual({
    ...{ runAsNonRoot: true, runAsUser: 65532, runAsGroup: 65532, fsGroup: 65532 },
    seccompProfile: { type: "RuntimeDefault" },
  });
  expect(containers.map(({ name }) => name)).toContain("provisioner-api");
  for (const each of containers)
    expect(each.securityContext).toEqual({
      ...{ privileged: false, allowPrivilegeEscalation: false, readOnlyRootFilesystem: true },
      capabilities: { drop: ["ALL"] },
    });
  const mounted = containers[0]?.volumeMounts.map(({ name }) => name) ?? [];
  expect(mounted.sort()).toEqual(volumes.map(({ name }: { name: string }) => name).sort());
  expect(notes()).toContain("It is unprivileged");
}, 120_000);

test("a takeover gives the controller rights where a connection mounts in it, and says for which", async () => {
  expect(await takenOver(api, mounting)).toEqual([0, passes]);
  expect(controller().containers[0]?.securityContext).toEqual({ privileged: true });
  expect(notes()).toContain("It is privileged, unlike the controller of democratic-csi's chart, for share:");
}, 120_000);

test.each([
  ["Flux", "helm.toolkit.fluxcd.io/v2", "HelmRelease", { values: api }],
  ["Argo CD", "argoproj.io/v1alpha1", "Application", { source: { helm: { valuesObject: api } } }],
  ["k3s", "helm.cattle.io/v1", "HelmChart", { chart: "democratic-csi", valuesContent: stringify(api) }],
])(
  "a takeover does not uninstall what %s would install again",
  async (tool, apiVersion, kind, spec) => {
    expect(await takenOver({ apiVersion, kind, metadata: { name: "zfs" }, spec })).toEqual([0, passes]);
    expect(notes()).toContain(`3. remove the ${kind} zfs from Git`);
    expect(notes()).toContain(`${tool} would install it again`);
    expect(notes()).toContain("put what was removed back into Git");
    expect(notes()).not.toContain("`helm uninstall <release>");
  },
  120_000,
);

test("a takeover of plain values names the release to uninstall, unless a tool would install it again", async () => {
  expect(await takenOver(api)).toEqual([0, passes]);
  expect(notes()).toContain("`helm uninstall <release> --namespace <namespace>` (if Flux or Argo CD installed it");
}, 120_000);
