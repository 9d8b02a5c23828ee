import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { parse, parseAllDocuments } from "yaml";
import { type Replacement, replaced } from "./kustomize.ts";

const folder = new URL("../examples/kubernetes/", import.meta.url);
const text = (file: string): string => readFileSync(new URL(file, folder), "utf8");

interface Manifest {
  readonly kind: string;
}

interface DaemonSet extends Manifest {
  readonly spec: {
    readonly template: {
      readonly spec: {
        readonly containers: readonly {
          readonly args: readonly string[];
          readonly env: readonly { readonly name: string; readonly value?: string }[];
          readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[];
        }[];
        readonly volumes: readonly { readonly name: string; readonly hostPath?: { readonly path: string } }[];
      };
    };
  };
}

const { replacements } = parse(text("settings/kustomization.yaml")) as { replacements: Replacement[] };

/** The folder of kubelet of each distribution on the page about installing. */
const kubelets = [
  ...readFileSync(new URL("../guide/install.md", folder), "utf8").matchAll(/^\| ([^|]+) \| `(\/var\/[^`]+)` \|/gm),
].flatMap(([, names = "", path = ""]) => names.split(", ").map(name => [name, path] as const));

test("the page about installing names the folder of kubelet of every distribution", () => {
  expect(kubelets.map(([name]) => name).sort()).toEqual(["MicroK8s", "RKE2", "Talos", "k0s", "k3s", "kind", "kubeadm"]);
});

test.each(kubelets)(
  "%s: the settings put the driver's name and the folder of kubelet, %s, everywhere",
  (_, kubelet) => {
    const daemonSet = parse(text("base/node.yaml")) as DaemonSet;
    const settings = parse(
      text("central/settings.yaml")
        .replace("driver: csimux.storage", "driver: csi.other")
        .replace("kubelet: /var/lib/kubelet", `kubelet: ${kubelet}`),
    ) as Manifest;
    const controller = parseAllDocuments(text("drivers/central/controller.yaml"))[0]?.toJS() as Manifest;
    const others = ["base/csidriver.yaml", "central/classes.yaml", "group-snapshots/class.yaml"].flatMap(file =>
      parseAllDocuments(text(file)).map(each => each.toJS() as Manifest),
    );
    replaced([settings, daemonSet, controller, ...others], replacements);
    expect(JSON.stringify([daemonSet, controller, ...others])).not.toContain("csimux.storage");
    const [container] = daemonSet.spec.template.spec.containers;
    const env = new Map((container?.env ?? []).map(each => [each.name, each.value]));
    const args = (container?.args ?? []).map(arg => arg.replace(/\$\((\w+)\)/g, (_, name) => env.get(name) ?? ""));
    const paths = Object.fromEntries(
      daemonSet.spec.template.spec.volumes.map(({ name, hostPath }) => [name, hostPath?.path]),
    );
    expect(paths).toMatchObject({
      kubelet,
      plugin: `${kubelet}/plugins/csi.other`,
      registration: `${kubelet}/plugins_registry`,
    });
    expect(args).toContain(`--kubelet-registration-path=${kubelet}/plugins/csi.other/csi.sock`);
    expect(container?.volumeMounts.find(({ name }) => name === "kubelet")?.mountPath).toBe(kubelet);
  },
);
