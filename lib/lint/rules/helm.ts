import { unknownFolder } from "../../config/proxy.ts";
import { hostPath, iscsiadmVariable } from "../../core/host-path.ts";
import type { Path } from "../../schema/finding.ts";
import { factsOf, isLocal, needsNoSection } from "../facts.ts";
import { at, type LintInput, listAt, type ManifestObject, mappingAt, textAt, textOf } from "../lint-input.ts";
import { error, type Found, report, rulesById, type Theme, warning } from "../rule.ts";

const rule = rulesById({
  "helm-folder-not-mounted": error(
    "The connection folder is mounted",
    "Otherwise the controller finds no connections.",
  ),
  "helm-topology-gate": error(
    "external-provisioner uses topology",
    "The chart's external-provisioner 3.x ignores topology by default.",
  ),
  "helm-local-driver": error(
    "Local drivers run a controller on every node",
    "One central controller would make every volume on its own node.",
  ),
  "helm-capacity": warning(
    "Capacity tracking is enabled on both sides",
    "The scheduler uses capacity only if the CSIDriver says so, and only the sidecar's flag publishes it.",
  ),
  "helm-config": error("The chart gets a main file", "Neither the controller nor the nodes start without it."),
  "helm-image": error(
    "Controller and nodes run the image of csimux",
    "The chart's own image is democratic-csi, which knows neither connections nor their handles.",
  ),
  "helm-iscsiadm": warning(
    "No variables for iscsiadm",
    "csimux runs iscsiadm where iscsid runs, also on Talos, and reads neither ISCSIADM_HOST_STRATEGY nor ISCSIADM_HOST_PATH. A program that is in none of the host's usual folders is an error, because csimux does not find it. `hostPID` and `iscsiDirHostPath` are not needed, and do no harm.",
  ),
  "helm-local-volume": error(
    "Folders of the node are mounted into the node's container, in both directions",
    "Otherwise pods see an empty folder, or none.",
  ),
});

/** Rules about Helm values of democratic-csi's chart: what connections need from it. */
export const helm: Theme = {
  rules: Object.values(rule),
  *check(input) {
    for (const values of input.helm) {
      yield* mainFile(values);
      yield* images(values);
      yield* iscsiadm(values);
      yield* localController(values, input);
      yield* localFolders(values, input);
      // Without a controller, as for inline volumes alone, no connection files are mounted and no provisioner runs.
      if (at(values.value, "controller", "enabled") === false) continue;
      yield* connectionFolder(values, input);
      yield* topologyGate(values, input);
      yield* capacity(values);
    }
  },
};

const provisionerArgs: Path = ["controller", "externalProvisioner", "extraArgs"];

const argsOf = ({ value }: ManifestObject): readonly string[] => listAt(value, ...provisionerArgs).map(textOf);

function* mainFile({ document, value }: ManifestObject): Found {
  if (textAt(value, "driver", "existingConfigSecret") !== undefined) return;
  if (Object.keys(mappingAt(value, "driver", "config")).some(key => key !== "driver")) return;
  if (needsNoSection(textAt(value, "driver", "config", "driver"))) return;
  const fix = 'add "driver.existingConfigSecret" with the name of a Secret that has the key driver-config-file.yaml';
  yield report(document, rule["helm-config"], ["driver"], "the chart gets no main file", fix, "key");
}

function* images({ document, value }: ManifestObject): Found {
  for (const part of ["controller", "node"] as const) {
    const path = [part, "driver", "image"];
    if (at(value, part, "enabled") === false) continue;
    const key = path.join(".");
    const runs = `${part === "node" ? "nodes run" : "the controller runs"} the image of democratic-csi`;
    const fix = `write registry and tag of csimux into "${key}"`;
    const name = imageName(at(value, ...path));
    if (name === undefined)
      yield report(document, rule["helm-image"], path, `without a name in "${key}", ${runs}`, fix, "key");
    else if (/(?:^|\/)democratic-csi$/.test(name)) yield report(document, rule["helm-image"], path, runs, fix);
  }
}

/** The image without tag and digest, of text or of a mapping; undefined if the chart's own name remains. */
function imageName(image: unknown): string | undefined {
  const name = typeof image === "string" ? image : textAt(image, "registry");
  return name?.replace(/@.*$/, "").replace(/:[^/]*$/, "") || undefined;
}

/** What democratic-csi needs to find iscsiadm on nodes; csimux finds it in the namespace of iscsid. */
function* iscsiadm({ document, value }: ManifestObject): Found {
  const path = ["node", "driver", "extraEnv"];
  for (const [index, each] of listAt(value, ...path).entries()) {
    const name = textAt(each, "name") ?? "";
    const use = iscsiadmVariable(name, textAt(each, "value") ?? "");
    if (use === undefined) continue;
    const isElsewhere = use === "elsewhere";
    const message = isElsewhere
      ? `csimux does not read ${name}: it looks for iscsiadm in ${hostPath}, where iscsid runs`
      : `csimux does not read ${name}: it finds iscsid among the host's processes and runs iscsiadm in its namespaces`;
    const fix = isElsewhere ? "make iscsiadm available in one of these folders" : "remove it";
    const severity = isElsewhere ? "error" : "warning";
    yield report(document, { ...rule["helm-iscsiadm"], severity }, [...path, index], message, fix);
  }
}

function* connectionFolder({ document, value }: ManifestObject, { main }: LintInput): Found {
  if (main?.read.config?.single !== undefined) return;
  const folder = textAt(value, "driver", "config", "proxy", "configFolder") ?? main?.read.partial?.configFolder;
  if (folder === undefined || folder === unknownFolder) return;
  const path = ["controller", "driver", "extraVolumeMounts"];
  if (listAt(value, ...path).some(mount => isAtOrAbove(textAt(mount, "mountPath"), folder))) return;
  const message = `nothing is mounted at ${folder}, where csimux expects the connection files`;
  const fix = "mount the Secret with the connection files there";
  yield report(document, rule["helm-folder-not-mounted"], path, message, fix, "key");
}

function* topologyGate(values: ManifestObject, { main, connections }: LintInput): Found {
  const wanted = main?.read.partial?.nodeTopology ?? connections.some(({ read }) => read.config?.topology);
  if (!wanted) return;
  if (argsOf(values).some(arg => /^--feature-gates=(?:.*,)?Topology=true(?:,|$)/.test(arg))) return;
  const image = at(values.value, "controller", "externalProvisioner", "image");
  const tag = typeof image === "string" ? image.split(":").at(-1) : textAt(image, "tag");
  // The chart's own version is 3.
  if (Number(/^v?(\d+)/.exec(tag ?? "v3")?.[1] ?? 3) >= 5) return;
  const message =
    "this external-provisioner ignores the configured topology: before version 5, its Topology gate is off";
  const fix = 'add "--feature-gates=Topology=true"';
  yield report(values.document, rule["helm-topology-gate"], provisionerArgs, message, fix, "key");
}

function* localController(values: ManifestObject, { connections }: LintInput): Found {
  const local = connections.find(each => isLocal(each) && factsOf(each)?.provisions);
  if (!local) return;
  const { document, value } = values;
  if (textAt(value, "controller", "strategy") !== "node") {
    const message = `${local.driver} needs a controller on every node`;
    const path = ["controller", "strategy"];
    yield report(document, rule["helm-local-driver"], path, message, 'write "controller.strategy: node"');
  }
  const args = argsOf(values);
  for (const arg of ["--node-deployment=true", "--strict-topology=true"].filter(each => !args.includes(each))) {
    const message = `${local.driver} needs the argument ${arg} of external-provisioner`;
    yield report(document, rule["helm-local-driver"], provisionerArgs, message, `add "${arg}"`, "key");
  }
}

/** Folders of local volumes must have the same path in the container, including mounts below them. */
function* localFolders({ document, value }: ManifestObject, { connections }: LintInput): Found {
  const path = ["node", "driver", "extraVolumeMounts"];
  const mounts = listAt(value, ...path);
  for (const connection of connections.filter(isLocal)) {
    for (const tree of factsOf(connection)?.territory?.trees ?? []) {
      const root = textAt(connection.read.normalized, ...tree) ?? "";
      if (!root.startsWith("/")) continue;
      const index = mounts.findIndex(mount => isAtOrAbove(textAt(mount, "mountPath"), root));
      if (index < 0) {
        const message = `${root}, the folder of volumes of connection "${connection.name}", is not mounted into the node's container`;
        const fix = "mount the folder of the host there, with mountPropagation: Bidirectional";
        yield report(document, rule["helm-local-volume"], path, message, fix, "key");
      } else if (textAt(mounts[index], "mountPropagation") !== "Bidirectional") {
        const message = `without it, mounts of volumes below ${root} stay inside the container`;
        const fix = 'write "mountPropagation: Bidirectional"';
        yield report(document, rule["helm-local-volume"], [...path, index, "mountPropagation"], message, fix);
      }
    }
  }
}

const isAtOrAbove = (folder = "", path: string): boolean =>
  folder !== "" && `${path}/`.startsWith(`${folder.replace(/\/+$/, "")}/`);

function* capacity(values: ManifestObject): Found {
  const isPublished = argsOf(values).includes("--enable-capacity=true");
  if (isPublished === (at(values.value, "csiDriver", "storageCapacity") === true)) return;
  const message = '"storageCapacity: true" and "--enable-capacity=true" work only together';
  yield report(
    values.document,
    rule["helm-capacity"],
    ["csiDriver", "storageCapacity"],
    message,
    "set both or neither",
    "key",
  );
}
